import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256

import pytest

from bert_keras.data.records import common_schema
from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.inspect.check import check
from tfrecords_tools.inspect.verify import every_file, parsed_batches
from tfrecords_tools.settings import BuildSettings

SMALL = BuildSettings(max_length=40, max_predictions=6, duplicates=8, shards=2, seed=7)


def built(corpus, vocabulary, output, *, workers=1, **changes):
    settings = replace(SMALL, **changes)
    return build(corpus, vocabulary=vocabulary, output=output, settings=settings, workers=workers)


def records_of(files, vocabulary):
    """Yields (label, tokens of A, tokens of B) with the masked tokens restored."""
    files = every_file(files)
    for file in files:
        for batch in parsed_batches(file, schema=common_schema(files)):
            for row in range(len(batch["input_ids"])):
                ids = batch["input_ids"][row].copy()
                counted = batch["masked_lm_weights"][row] > 0
                positions = batch["masked_lm_positions"][row][counted]
                ids[positions] = batch["masked_lm_ids"][row][counted]
                tokens = [vocabulary.tokens[number] for number in ids]
                first = tokens.index("[SEP]")
                last = tokens.index("[SEP]", first + 1)
                label = int(batch["next_sentence_labels"][row, 0])
                yield label, tokens[1:first], tokens[first + 1 : last]


def test_the_folder_contains_records_vocabulary_and_manifest(corpus, vocabulary, tmp_path):
    manifest = built(corpus, vocabulary, tmp_path / "records", held_out_rate=0.3)
    names = ["train-00000-of-00002", "train-00001-of-00002", "held-out-00000-of-00001"]
    assert {path.name for path in (tmp_path / "records").iterdir()} == {
        "manifest.json",
        "vocab.txt",
        "features.json",
        "dataset_info.json",
        *(f"{name}.tfrecord" for name in names),
    }
    folder = tmp_path / "records"
    assert json.loads((folder / "manifest.json").read_text()) == manifest
    assert manifest["settings"]["lowercase"] is True
    assert manifest["settings"]["seed"] == 7
    assert Vocabulary.from_file(folder / "vocab.txt") == vocabulary
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    for entry in (*shards, manifest["vocabulary"]):
        assert sha256((folder / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    train = manifest["splits"]["train"]
    assert train["records"] == sum(shard["records"] for shard in train["shards"])
    assert (train["documents"], manifest["splits"]["held-out"]["documents"]) == (4, 2)


def test_same_seed_same_bytes(corpus, vocabulary, tmp_path):
    first = built(corpus, vocabulary, tmp_path / "a", held_out_rate=0.3)
    again = built(corpus, vocabulary, tmp_path / "b", held_out_rate=0.3)
    other = built(corpus, vocabulary, tmp_path / "c", held_out_rate=0.3, seed=8)
    assert first == again
    shards = [each["splits"]["train"]["shards"] for each in (first, other)]
    assert shards[0][0]["sha256"] != shards[1][0]["sha256"]


def test_next_texts_masks_and_lengths(corpus, vocabulary, tmp_path):
    manifest = built(corpus, vocabulary, tmp_path / "records")
    counts = check(tmp_path / "records", vocabulary=vocabulary)
    train = manifest["splits"]["train"]
    assert counts["records"] == train["records"] > 300
    assert counts["labels_one"] == train["labels_one"]
    assert 2 * counts["labels_one"] == counts["records"]
    assert counts["predicted"] / counts["tokens"] == pytest.approx(0.15, abs=0.01)
    assert counts["masked"] / counts["predicted"] == pytest.approx(0.8, abs=0.03)
    assert counts["unknown"] == 0
    for label, first, second in records_of(tmp_path / "records", vocabulary):
        documents_a = {token for token in first if token.startswith("doc")}
        documents_b = {token for token in second if token.startswith("doc")}
        assert len(documents_a) <= 1
        assert len(documents_b) <= 1
        if documents_a and documents_b:
            assert (documents_a != documents_b) == bool(label)


def test_train_and_held_out_documents_are_disjoint(corpus, vocabulary, tmp_path):
    built(corpus, vocabulary, tmp_path / "records", held_out_rate=0.3)
    seen = {}
    for name in ("train", "held-out"):
        records = records_of(f"{tmp_path}/records/{name}*", vocabulary)
        tokens = {token for _, first, second in records for token in (*first, *second)}
        seen[name] = {token for token in tokens if token.startswith("doc")}
    assert (len(seen["train"]), len(seen["held-out"])) == (4, 2)
    assert not seen["train"] & seen["held-out"]


@pytest.mark.parametrize("text", ["a b c\nd e f\ng h\n", "ada sees cats.\n\n\n"])
def test_a_single_document_is_refused(tmp_path, vocabulary, text):
    (tmp_path / "one.txt").write_text(text)
    with pytest.raises(InputError, match=r"needs at least two documents.*add files"):
        built([tmp_path / "one.txt"], vocabulary, tmp_path / "records")
    assert [path.name for path in tmp_path.iterdir()] == ["one.txt"], "files remain"


def test_too_few_documents_or_records_are_refused(corpus, vocabulary, tmp_path):
    (tmp_path / "three.txt").write_text("ada\n\nben\n\ncy\n")
    with pytest.raises(InputError, match=r"has 3 documents, too few to hold some out"):
        built([tmp_path / "three.txt"], vocabulary, tmp_path / "records", held_out_rate=0.5)
    with pytest.raises(InputError, match=r"too few records \(train\) for 99 shards"):
        built([tmp_path / "three.txt"], vocabulary, tmp_path / "records", shards=99)
    with pytest.raises(InputError, match=r"each document \(train\) has one sentence, but sentence"):
        built([tmp_path / "three.txt"], vocabulary, tmp_path / "records", objective="sop")
    assert not (tmp_path / "records").exists()


def test_an_existing_output_is_refused(corpus, vocabulary, tmp_path):
    with pytest.raises(InputError, match="exists already; choose another name"):
        built(corpus, vocabulary, tmp_path)


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_number_of_workers_does_not_change_the_bytes(
    corpus, vocabulary, tmp_path, monkeypatch, workers
):
    monkeypatch.setattr("tfrecords_tools.build.UNIT_BYTES", 500)
    monkeypatch.setattr("tfrecords_tools.records.splits.SENTENCES_PER_RANGE", 20)
    first = built(corpus, vocabulary, tmp_path / "a", held_out_rate=0.3, shards=5)
    again = built(corpus, vocabulary, tmp_path / "b", held_out_rate=0.3, shards=5, workers=workers)
    assert first == again
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 4}, "max_length is 4; expected at least 5"),
        ({"max_predictions": -1}, "max_predictions is -1; expected at least 0"),
        ({"duplicates": 0}, "duplicates is 0; expected at least 1"),
        ({"shards": 0}, "shards is 0; expected at least 1"),
        ({"short_sequence_rate": 1.0}, "short_sequence_rate is 1.0; expected a rate in"),
        ({"held_out_rate": -0.1}, "held_out_rate is -0.1; expected a rate in"),
        ({"seed": -1}, "seed is -1; expected at least 0"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        BuildSettings(**settings)


@pytest.mark.parametrize("command", ["build --output {}/records", "check"])
def test_building_and_surveys_load_neither_keras_nor_tensorflow(
    corpus, vocabulary, tmp_path, command
):
    vocabulary.save(tmp_path / "vocab.txt")
    program = (
        "import sys; from tfrecords_tools.cli import main; code = main(sys.argv[1:]);"
        "loaded = {'keras', 'tensorflow'} & set(sys.modules);"
        "sys.exit(code or ' '.join(loaded) or 0)"
    )
    command = [*command.format(tmp_path).split(), "--vocab", tmp_path / "vocab.txt"]
    done = subprocess.run(
        [sys.executable, "-c", program, command[0], *corpus, *command[1:]],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
