"""Local builds: the folder, the contents of records, refusals, and interrupted builds."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from bert_keras.data.records import common_schema
from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools import build as building
from tfrecords_tools.build import build
from tfrecords_tools.check import every_file, parsed_batches
from tfrecords_tools.settings import BuildSettings, GoogleSettings

SMALL = BuildSettings(max_length=40, max_predictions=6, duplicates=8, shards=2, seed=7)


def built(corpus, vocabulary, output, **changes):
    settings = replace(SMALL, **changes)
    return build(corpus, vocabulary=vocabulary, output=output, settings=settings)


def records_of(files, vocabulary):
    """Yields the tokens of each record with the masked tokens restored."""
    files = every_file(files)
    options = {"schema": common_schema(files), "vocab_size": len(vocabulary)}
    for file in files:
        for batch in parsed_batches(file, **options):
            for row in range(len(batch["input_ids"])):
                ids = batch["input_ids"][row].copy()
                counted = batch["masked_lm_weights"][row] > 0
                positions = batch["masked_lm_positions"][row][counted]
                ids[positions] = batch["masked_lm_ids"][row][counted]
                yield [vocabulary.tokens[number] for number in ids]


def test_the_folder_and_its_disjoint_splits(corpus, vocabulary, tmp_path):
    manifest = built(corpus, vocabulary, tmp_path / "records", held_out_rate=0.3)
    names = ["train-00000-of-00002", "train-00001-of-00002", "held-out-00000-of-00001"]
    folder = tmp_path / "records"
    names = {"manifest.json", "vocab.txt", *(f"{name}.tfrecord" for name in names)}
    assert {path.name for path in folder.iterdir()} == names
    assert json.loads((folder / "manifest.json").read_text()) == manifest
    assert manifest["settings"]["lowercase"] is True and manifest["settings"]["seed"] == 7
    assert Vocabulary.from_file(folder / "vocab.txt") == vocabulary
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    for entry in (*shards, manifest["vocabulary"]):
        assert sha256((folder / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    train = manifest["splits"]["train"]
    assert train["records"] == sum(shard["records"] for shard in train["shards"])
    assert (train["documents"], manifest["splits"]["held-out"]["documents"]) == (4, 2)
    seen = {}
    for name in ("train", "held-out"):
        records = records_of(f"{tmp_path}/records/{name}*", vocabulary)
        seen[name] = {t for record in records for t in record if t.startswith("doc")}
    assert (len(seen["train"]), len(seen["held-out"])) == (4, 2)
    assert not seen["train"] & seen["held-out"]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a b c\nd e f\ng h\n", {}),
        *((3 * "ada\n\n", each) for each in ({"held_out_rate": 0.5}, {"shards": 99})),
        *((3 * "ada\n\n", each) for each in ({"objective": "sop"}, {"splitter": "jp"})),
    ],
)
def test_a_corpus_that_does_not_suffice_is_refused(vocabulary, tmp_path, text, settings):
    (tmp_path / "one.txt").write_text(text)
    with pytest.raises(InputError):
        built([tmp_path / "one.txt"], vocabulary, tmp_path / "records", **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["one.txt"], "files remain"


@pytest.mark.parametrize(
    "settings",
    [
        *({"shards": 10**9}, {"held_out_rate": -0.1}, {"objective": "nps"}),
        *({"segmenter": "jieba:lcut"}, {"max_predictions": 0, "mask_rate": 0.2}),
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InputError):
        BuildSettings(**settings)


RESUMED = replace(SMALL, duplicates=2, shards=3, held_out_rate=0.3)
GOOGLE = GoogleSettings(max_length=40, max_predictions=6, duplicates=2, shards=3)


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr("tfrecords_tools.corpus.UNIT_BYTES", 1000)
    monkeypatch.setattr("tfrecords_tools.store.SENTENCES_PER_RANGE", 60)


@pytest.fixture(params=["folder_files", "json_object"])
def stopped(corpus, vocabulary, tmp_path, monkeypatch, small_units, request):
    """Stops a build before it writes the manifest, or at its end; gives what goes on with it."""

    def going_on(*, files=corpus, vocabulary=vocabulary, settings=RESUMED, output="records"):
        output = tmp_path / output
        return build(files, vocabulary=vocabulary, output=output, settings=settings)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(building, request.param, interrupted)
        going_on()
    return going_on


def test_finished_work_is_kept_after_an_error(corpus, vocabulary, tmp_path, monkeypatch):
    output, written, write = tmp_path / "records", [], building.WriteShard.__call__

    def write_meanwhile(job):
        written.append(output.touch())  # by another process
        return building.json_object(output) if len(written) == 2 else write(job)

    monkeypatch.setattr(building.WriteShard, "__call__", write_meanwhile)
    for num_jobs in (2, 3):
        with pytest.raises(InputError):
            built(corpus, vocabulary, output)
        assert len(written) == num_jobs
        output.unlink()
    built(corpus, vocabulary, output)
    assert len(written) == 3 and not (tmp_path / "records.partial").exists()


def test_other_settings_files_texts_or_vocabularies_are_refused(
    stopped, corpus, vocabulary, tmp_path
):
    other = type(vocabulary)((*vocabulary.tokens, "more"))
    before = sorted((tmp_path / "records.partial").rglob("*"))
    text = corpus[1].read_text()
    for changes in (
        *({"settings": replace(RESUMED, seed=8)}, {"settings": GOOGLE}, {"vocabulary": other}),
        *({"files": corpus[:1]}, {"files": corpus[::-1]}),
    ):
        with pytest.raises(InputError):
            stopped(**changes)
    corpus[1].write_text(text.replace("ada", "ben"))
    with pytest.raises(InputError):
        stopped()
    assert sorted((tmp_path / "records.partial").rglob("*")) == before
    corpus[1].write_text(text)  # at another time
    assert stopped(files=[f"{tmp_path}/*"])["splits"]["train"]["records"]
