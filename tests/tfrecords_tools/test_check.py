"""Records are verified one by one and compared with their manifest."""

import shutil

import numpy as np
import pytest

from bert_keras.data.record_file import frame, serialize
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.check import check_records, first_problem
from tfrecords_tools.settings import MANIFEST, BuildSettings

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
        (tmp_path / name).write_bytes(b"".join(frame(serialize(each)) for each in records))
        return tmp_path / name

    return written


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        *((features, {"masked_lm_positions": each}) for each in ([2, 8, 0], [2, 2, 0])),
        (features, {"masked_lm_weights": np.zeros(3, np.float32)}),
        (features, {"input_mask": [1, 1, 1, 0, 1, 1, 1, 1, 0]}),
        (features, {"input_ids": [5, 5, 4, 7, 3, 8, 1, 3, 0]}),
        (packed, {"sequence_ids": [1, 1, 1, 1, 2, 2, 2, 2]}),
        (packed, {"sequence_ids": [1, 1, 1, 1, 3, 3, 3, 0]}),
        (packed, {"position_ids": [0, 1, 2, 3, 4, 5, 6, 0]}),
        (packed, {"input_ids": [2, 5, 4, 3, 8, 8, 3, 0]}),
        (packed, {"next_sentence_positions": [0, 5, 0]}),
        (packed, {"next_sentence_weights": np.float32([1, 0, 0])}),
    ],
)
def test_wrong_records_are_found(make, changes):
    records = [make(), make(**changes)]
    batch = {name: np.concatenate([each[name] for each in records]) for name in records[0]}
    row, _ = first_problem(batch, VOCABULARY)
    assert row == 1
    assert first_problem(make(), VOCABULARY) is None


def test_a_wrong_record_of_a_file_is_refused(write):
    changes = {"input_ids": [2, 5, 9, 7, 3, 8, 1, 3, 0]}, {"masked_lm_positions": [2, 8, 0]}
    for wrong in (*(features(**each) for each in changes), packed()):
        path = write(features(), wrong)
        with pytest.raises(InputError):
            check_records(path, vocabulary=VOCABULARY)


@pytest.fixture
def folder(corpus, vocabulary, tmp_path):
    settings = BuildSettings(max_length=40, max_predictions=6, duplicates=1, shards=2)
    build(corpus, vocabulary=vocabulary, output=tmp_path / "records", settings=settings)
    return tmp_path / "records"


FIRST, SECOND = (f"train-0000{number}-of-00002.tfrecord" for number in (0, 1))


def test_a_folder_that_matches_its_manifest_passes(folder, vocabulary):
    counts = check_records(folder, vocabulary=vocabulary)
    assert (counts["files"], counts["manifests"]) == (2, 1)
    (folder / SECOND).unlink()
    # Named files do not need the others.
    assert check_records(folder / FIRST, vocabulary=vocabulary)["files"] == 1


def rewrite(folder, change, name=SECOND):
    (folder / name).write_bytes(change((folder / name).read_bytes()))


def restate(folder, old, new):
    rewrite(folder, lambda data: data.replace(old, new), MANIFEST)


@pytest.mark.parametrize(
    "harm",
    [
        lambda f: rewrite(f, lambda data: data[:99]),
        lambda f: rewrite(f, lambda data: data * 2),
        lambda f: (f / SECOND).rename(f / "c.tfrecord"),
        lambda f: shutil.copy(f / FIRST, f / "c.tfrecord"),
        lambda f: (f / SECOND).unlink(),
        lambda f: restate(f, b'\n    "sha256": "', b'\n    "sha256": "0'),
        lambda f: restate(f, b'"format": 2', b'"format": 3'),
    ],
)
def test_differences_from_the_manifest_are_refused(folder, vocabulary, harm):
    harm(folder)
    with pytest.raises(InputError):
        check_records(folder, vocabulary=vocabulary)
