import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import vocabulary_sha256
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.inspect.check import check, report
from tfrecords_tools.inspect.verify import every_file, verify
from tfrecords_tools.manifest import FORMAT, MANIFEST
from tfrecords_tools.records.writer import framed, serialized

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "cat", "##s", "sat"))


def features(**changes):
    """One record: "[CLS] a [MASK]##s [SEP] sat [UNK] [SEP] [PAD]", labelled random."""
    one = {
        "input_ids": [2, 5, 4, 7, 3, 8, 1, 3, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0, 0, 1, 1, 1, 0],
        "masked_lm_positions": [2, 5, 0],
        "masked_lm_ids": [6, 8, 0],
        "masked_lm_weights": np.array([[1, 1, 0]], np.float32),
        "next_sentence_labels": [1],
    } | changes
    return {name: np.atleast_2d(values) for name, values in one.items()}


def plain(**changes):
    """ "[CLS] a cat [SEP] sat [SEP] [PAD]": no masks, no label."""
    one = {
        "input_ids": [2, 5, 6, 3, 8, 3, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0],
    } | changes
    return {name: np.atleast_2d(values) for name, values in one.items()}


def packed(**changes):
    """ "[CLS] a [MASK] [SEP] | [CLS] sat [SEP] [PAD]", the first label random; space for three."""
    one = {
        "input_ids": [2, 5, 4, 3, 2, 8, 3, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 1, 0],
        "segment_ids": [0] * 8,
        "position_ids": [0, 1, 2, 3, 0, 1, 2, 0],
        "sequence_ids": [1, 1, 1, 1, 2, 2, 2, 0],
        "masked_lm_positions": [2],
        "masked_lm_ids": [6],
        "masked_lm_weights": np.ones((1, 1), np.float32),
        "next_sentence_positions": [0, 4, 0],
        "next_sentence_labels": [1, 0, 0],
        "next_sentence_weights": np.array([[1, 1, 0]], np.float32),
    } | changes
    return {name: np.atleast_2d(values) for name, values in one.items()}


@pytest.fixture
def write(tmp_path):
    def written(*records, name="a.tfrecord"):
        (tmp_path / name).write_bytes(b"".join(framed(serialized(each)) for each in records))
        return tmp_path / name

    return written


@pytest.fixture
def folder(write, tmp_path):
    """Two shards of two records, and a manifest that fits them."""
    texts = iter(range(4))
    for name in ("train-0.tfrecord", "train-1.tfrecord"):
        write(*(record_of_text(next(texts)) for _ in range(2)), name=name)
    write_manifest(tmp_path)
    return tmp_path


def record_of_text(number):
    ids = [2, 5 + number, 4, 7, 3, 8, 1, 3, 0]
    return features(input_ids=ids)


def write_manifest(folder, **changes):
    shards = [
        {
            "file": path.name,
            "records": 2,
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.glob("*.tfrecord"))
    ]
    manifest = {
        "format": FORMAT,
        "settings": {"objective": "nsp"},
        "schema": asdict(PretrainingSchema(9, 3)),
        "vocabulary": {"sha256": vocabulary_sha256(VOCABULARY)},
        "splits": {"train": {"shards": shards}},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest | changes))


def test_counts_and_report(write):
    counts = check(write(features(), features(next_sentence_labels=[0])), vocabulary=VOCABULARY)
    assert counts == {
        "files": 1,
        "manifests": 0,
        "records": 2,
        "positions": 18,
        "tokens": 16,
        "text": 10,
        "unknown": 2,
        "labels": 2,
        "labels_one": 1,
        "predicted": 4,
        "masked": 2,
        "kept": 2,
        "repeated": 1,
        "compared": 2,
        "held_out_trained": 0,
        "held_out_compared": 0,
    }
    assert [line.split() for line in report(counts).splitlines()] == [
        ["files", "1"],
        ["manifest", "none"],
        ["records", "2"],
        ["random", "next", "50.00%"],
        ["padding", "11.11%"],
        ["predicted", "25.00%"],
        ["masked", "50.00%"],
        ["replaced", "0.00%"],
        ["kept", "50.00%"],
        ["[UNK]", "in", "the", "text", "20.00%"],
        ["repeated", "texts", "50.00%"],
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_ids": [2, 5, 9, 7, 3, 8, 1, 3, 0]}, "an id is outside the vocabulary of 9 tokens"),
        ({"masked_lm_ids": [6, 99, 0]}, "an id is outside the vocabulary of 9 tokens"),
        ({"masked_lm_positions": [2, 8, 0]}, "a masked position is outside the sequence"),
        ({"masked_lm_positions": [2, 5, 9]}, "a masked position is outside the sequence"),
        ({"masked_lm_positions": [2, 2, 0]}, "a position is masked twice"),
        ({"masked_lm_weights": np.zeros((1, 3), np.float32)}, "no position is predicted"),
        ({"input_mask": [1, 1, 1, 0, 1, 1, 1, 1, 0]}, "input_mask is not ones and then zeros"),
        ({"segment_ids": [0, 0, 0, 0, 0, 1, 1, 2, 0]}, "a segment is neither 0 nor 1"),
        ({"input_ids": [5, 5, 4, 7, 3, 8, 1, 3, 0]}, r"does not start with \[CLS\]"),
        ({"next_sentence_labels": [2]}, "a label is neither 0 nor 1"),
    ],
)
def test_wrong_records_are_named(changes, message):
    with pytest.raises(InputError, match=rf"a\.tfrecord, record 9: .*{message}"):
        verify_two(features(), features(**changes))


def verify_two(*records):
    """Verifies two records of a batch before which seven stand in the file."""
    batch = {name: np.concatenate([each[name] for each in records]) for name in records[0]}
    verify(batch, file="a.tfrecord", first=7, vocabulary=VOCABULARY)


def test_a_wrong_record_of_a_file_is_named(write):
    path = write(features(), features(input_ids=[2, 5, 9, 7, 3, 8, 1, 3, 0]))
    with pytest.raises(InputError, match=rf"{path}, record 2: an id is outside the vocabulary of"):
        check(path, vocabulary=VOCABULARY)


def test_plain_ids_are_counted_without_masks_and_labels(write):
    counts = check(write(plain(), plain(input_ids=[2, 8, 6, 3, 8, 3, 0])), vocabulary=VOCABULARY)
    assert (counts["records"], counts["tokens"], counts["repeated"]) == (2, 12, 0)
    names = [line[:24].strip() for line in report(counts).splitlines()]
    assert names == [
        *("files", "manifest", "records", "padding", "[UNK] in the text", "repeated texts")
    ]


def test_packed_records_are_counted_by_sequence(write):
    counts = check(write(packed(), packed()), vocabulary=VOCABULARY)
    assert (counts["records"], counts["sequences"]) == (2, 4)
    assert (counts["labels"], counts["labels_one"]) == (4, 2)
    text = report(counts)
    assert "sequences per record            2.00" in text
    assert "random next                   50.00%" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_ids": [1, 1, 1, 1, 2, 2, 2, 2]}, "not 0 exactly at the padding"),
        ({"sequence_ids": [1, 1, 1, 1, 3, 3, 3, 0]}, "do not count 1, 2, 3 without a gap"),
        ({"sequence_ids": [2, 2, 2, 2, 1, 1, 1, 0]}, "do not count 1, 2, 3 without a gap"),
        ({"position_ids": [0, 1, 2, 3, 4, 5, 6, 0]}, "do not restart at 0"),
        ({"position_ids": [0, 1, 2, 3, 0, 2, 1, 0]}, "do not restart at 0"),
        ({"input_ids": [2, 5, 4, 3, 8, 8, 3, 0]}, r"a sequence does not start with \[CLS\]"),
        ({"next_sentence_positions": [0, 5, 0]}, r"the position of a label is not the \[CLS\]"),
        ({"next_sentence_positions": [4, 0, 0]}, r"the position of a label is not the \[CLS\]"),
        ({"next_sentence_positions": [0, 99, 0]}, r"the position of a label is not the \[CLS\]"),
        (
            {"next_sentence_weights": np.array([[1, 0, 0]], np.float32)},
            "the labels do not match the sequences",
        ),
    ],
)
def test_wrong_packing_is_named(changes, message):
    with pytest.raises(InputError, match=rf"a\.tfrecord, record 9: .*{message}"):
        verify_two(packed(), packed(**changes))


def test_wrong_packing_of_a_file_is_named(write):
    path = write(packed(), packed(next_sentence_positions=[0, 5, 0]))
    with pytest.raises(InputError, match=r"a\.tfrecord, record 2: the position of a label is not"):
        check(path, vocabulary=VOCABULARY)


@pytest.mark.parametrize("num_left", [1, 8, 11, 12, 60, -5, -1])
def test_truncated_files_are_named_without_a_manifest(write, num_left):
    """The first 12 bytes of the second record are its length and a checksum."""
    size = len(write(features()).read_bytes())
    path = write(features(), features())
    path.write_bytes(path.read_bytes()[: num_left + size * (1 + (num_left < 0))])
    with pytest.raises(InputError, match=r"a\.tfrecord is truncated or corrupt"):
        check(path, vocabulary=VOCABULARY)


def test_folder_that_matches_its_manifest_passes(folder):
    counts = check(folder, vocabulary=VOCABULARY)
    assert (counts["records"], counts["repeated"], counts["manifests"]) == (4, 0, 1)
    assert "manifest                      agrees" in report(counts)


def cut(folder):
    path = folder / "train-1.tfrecord"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])  # between two records


def grow(folder):
    path = folder / "train-1.tfrecord"
    path.write_bytes(path.read_bytes() * 2)


def alter(folder):
    records = [framed(serialized(record_of_text(number))) for number in (3, 2)]
    (folder / "train-1.tfrecord").write_bytes(b"".join(records))


def copy(folder):
    (folder / "train-2.tfrecord").write_bytes((folder / "train-0.tfrecord").read_bytes())


def copy_over(folder):
    cut(folder)
    (folder / "train-0.tfrecord").write_bytes((folder / "train-1.tfrecord").read_bytes())


def lose(folder):
    (folder / "train-1.tfrecord").unlink()


def lose_count(folder):
    text = (folder / MANIFEST).read_text().replace('"records": 2', '"records": 3', 1)
    (folder / MANIFEST).write_text(text)


def change_schema(folder):
    write_manifest(folder, schema=asdict(PretrainingSchema(10, 3)))


def change_vocabulary(folder):
    write_manifest(folder, vocabulary={"sha256": vocabulary_sha256(Vocabulary(SPECIAL_TOKENS))})


def change_format(folder):
    write_manifest(folder, format=3)


def damage(folder):
    write_manifest(folder, splits=[])


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            cut,
            r"train-1\.tfrecord is truncated or replaced: it has \d+ bytes, but manifest",
        ),
        (grow, r"train-1\.tfrecord is longer than it was written: it has"),
        (alter, r"train-1\.tfrecord was altered: its SHA-256 is not the one in manifest"),
        (copy, r"train-2\.tfrecord is not among the shards in manifest"),
        (copy, r"train-2\.tfrecord contains the same records as .*train-0\.tfrecord; remove one"),
        (copy_over, r"train-1\.tfrecord contains the same records as .*train-0\.tfrecord"),
        (lose, r"train-1\.tfrecord is missing"),
        (lose_count, r"train-0\.tfrecord contains 2 records, but manifest\.json states 3"),
        (change_schema, r"have 9 positions .*, but manifest\.json states 10 positions"),
        (change_vocabulary, r"manifest\.json states another vocabulary than this one of 9 tokens"),
        (change_format, r"manifest\.json has the format 3; expected 2"),
        (damage, r"manifest\.json is not a manifest of bert-tfrecords build"),
    ],
)
def test_differences_from_the_manifest_are_named(folder, harm, message):
    harm(folder)
    with pytest.raises(InputError, match=message):
        check(folder, vocabulary=VOCABULARY)


def test_all_problems_are_reported_together(folder):
    cut(folder)
    copy(folder)
    (folder / "train-3.tfrecord").write_bytes((folder / "train-0.tfrecord").read_bytes()[:-1])
    with pytest.raises(InputError) as error:
        check(folder, vocabulary=VOCABULARY)
    lines = str(error.value).splitlines()
    assert lines[0] == "5 problems (at most 20 are listed):"
    assert [Path(line.split()[0]).name for line in lines[1:]] == [
        f"train-{number}.tfrecord" for number in (1, 2, 3, 3, 2)
    ]


def test_a_folder_whose_name_is_a_pattern(write, tmp_path):
    for name in ("[ab]", "a"):
        (tmp_path / name).mkdir()
    path = write(features(), name="[ab]/1.tfrecord")
    write(record_of_text(0), name="a/2.tfrecord")
    assert every_file(tmp_path / "[ab]") == [str(path)]


def test_named_files_of_a_folder_do_not_need_the_others(folder):
    lose(folder)
    assert check(folder / "train-0.tfrecord", vocabulary=VOCABULARY)["records"] == 2


def test_duplicate_shards_are_refused_without_a_manifest(write):
    paths = [write(features(), name="a.tfrecord"), write(features(), name="b.tfrecord")]
    with pytest.raises(InputError, match=r"b\.tfrecord contains the same records as .*a\.tfrecord"):
        check(paths, vocabulary=VOCABULARY)


def test_held_out_records_of_a_folder_are_compared_with_training(write, tmp_path):
    write(record_of_text(0), record_of_text(1), name="train-0.tfrecord")
    write(record_of_text(1), record_of_text(2), record_of_text(3), name="held-out-0.tfrecord")
    counts = check(tmp_path, vocabulary=VOCABULARY)
    assert (counts["records"], counts["repeated"]) == (5, 0)
    assert (counts["held_out_trained"], counts["held_out_compared"]) == (1, 3)
    assert "held out, yet trained         33.33%" in report(counts)
