import json

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.check import check, report
from tfrecords_tools.show import shown
from tfrecords_tools.writer import serialized, write_records

VOCABULARY = Vocabulary((*SPECIAL_PIECES, "a", "cat", "##s", "sat"))


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


@pytest.fixture
def write(tmp_path):
    def written(*records, name="a.tfrecord"):
        write_records(tmp_path / name, [serialized(record) for record in records])
        return tmp_path / name

    return written


def test_counts_and_report(write):
    counts = check(write(features(), features(next_sentence_labels=[0])), vocabulary=VOCABULARY)
    assert counts == {
        "files": 1,
        "records": 2,
        "positions": 18,
        "tokens": 16,
        "text": 10,
        "unknown": 2,
        "random_next": 1,
        "predicted": 4,
        "masked": 2,
        "kept": 2,
    }
    assert report(counts).splitlines()[2:] == [
        "random next               50.00%",
        "padding                   11.11%",
        "predicted                 25.00%",
        "  shown as [MASK]         50.00%",
        "  shown as another         0.00%",
        "  shown as it is          50.00%",
        "[UNK] in the text         20.00%",
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"input_ids": [2, 5, 9, 7, 3, 8, 1, 3, 0]}, "an id is outside the vocabulary of 9 pieces"),
        ({"masked_lm_ids": [6, 99, 0]}, "an id is outside the vocabulary of 9 pieces"),
        ({"masked_lm_positions": [2, 8, 0]}, "a masked position is outside the sequence"),
        ({"masked_lm_positions": [2, 2, 0]}, "a position is masked twice"),
        ({"masked_lm_weights": np.zeros((1, 3), np.float32)}, "nothing is to be predicted"),
        ({"input_mask": [1, 1, 1, 0, 1, 1, 1, 1, 0]}, "input_mask is not ones and then zeros"),
        ({"segment_ids": [0, 0, 0, 0, 0, 1, 1, 2, 0]}, "a segment is neither 0 nor 1"),
        ({"input_ids": [5, 5, 4, 7, 3, 8, 1, 3, 0]}, r"does not begin with \[CLS\]"),
        ({"next_sentence_labels": [2]}, "the next sentence label is neither 0 nor 1"),
    ],
)
def test_wrong_records_are_named(write, changes, told):
    if "9 pieces" in told:
        changes = {name: [min(each, 10**6) for each in value] for name, value in changes.items()}
    path = write(features(), features(**changes))
    with pytest.raises(InputError, match=rf"a\.tfrecord, record 2: .*{told}"):
        check(path, vocabulary=VOCABULARY)


def test_truncated_files_are_named(write):
    path = write(features(), features())
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(InputError, match=r"a\.tfrecord is truncated or corrupt"):
        check(path, vocabulary=VOCABULARY)
    path.write_bytes(whole[: len(whole) // 2])  # between two records: only the manifest knows
    shards = [{"file": path.name, "records": 2}]
    manifest = {"splits": {"train": {"shards": shards}}}
    path.with_name("records.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"holds 1 records, but records\.json beside it says 2"):
        check(path, vocabulary=VOCABULARY)


def test_a_folder_means_all_its_records(write, tmp_path):
    write(features(), name="train-0.tfrecord")
    write(features(), name="held-out-0.tfrecord")
    assert check(tmp_path, vocabulary=VOCABULARY)["records"] == 2


def test_shown_records(write):
    path = write(features(), features(next_sentence_labels=[0]), features())
    assert list(shown(path, vocabulary=VOCABULARY, count=2)) == [
        f"a.tfrecord, record {number}: {label}\n"
        "  [CLS] a {[MASK]=cat}s [SEP] {sat=sat} [UNK] [SEP]"
        for number, label in [(1, "random next"), (2, "true next")]
    ]
