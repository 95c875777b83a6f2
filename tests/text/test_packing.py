import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.text.packing import pack, truncated_lengths
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, *map(str, range(5, 100))))
CLS, SEP = VOCABULARY.cls_id, VOCABULARY.sep_id


def cut_one_by_one(length_a, length_b, limit):
    while length_a + length_b > limit:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    return length_a, length_b


def test_truncation_equals_the_step_by_step_rule():
    lengths = range(14)
    for limit in range(1, 14):
        for length_a in lengths:
            kept = [truncated_lengths(length_a, length_b, limit=limit) for length_b in lengths]
            expected = [cut_one_by_one(length_a, length_b, limit) for length_b in lengths]
            assert kept == expected
    kept_a, kept_b = truncated_lengths(np.array([9, 5, 1]), np.array([3, 5, 20]), limit=9)
    assert (kept_a.tolist(), kept_b.tolist()) == ([6, 5, 1], [3, 4, 8])


def test_pairs_exactly():
    batch = pack([[5, 6, 7], [8]], [[9], [10, 11]], vocabulary=VOCABULARY, max_length=128)
    assert {name: values.dtype for name, values in batch.items()} == dict.fromkeys(
        ["input_ids", "input_mask", "segment_ids"], np.int32
    )
    assert batch["input_ids"].tolist() == [
        [CLS, 5, 6, 7, SEP, 9, SEP],
        [CLS, 8, SEP, 10, 11, SEP, 0],
    ]
    assert batch["input_mask"].tolist() == [[1] * 7, [1] * 6 + [0]]
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 0]]


def test_single_texts_exactly():
    batch = pack([[5, 6, 7, 8, 9], [], [10]], vocabulary=VOCABULARY, max_length=5)
    assert batch["input_ids"].tolist() == [
        [CLS, 5, 6, 7, SEP],
        [CLS, SEP, 0, 0, 0],
        [CLS, 10, SEP, 0, 0],
    ]
    assert batch["input_mask"].sum(axis=1).tolist() == [5, 2, 3]
    assert not batch["segment_ids"].any()


def test_too_long_pairs_lose_their_ends():
    batch = pack([[5, 6, 7]], [[10, 11, 12, 13]], vocabulary=VOCABULARY, max_length=8)
    assert batch["input_ids"].tolist() == [[CLS, 5, 6, 7, SEP, 10, 11, SEP]]


def test_an_empty_second_text_keeps_its_separator():
    batch = pack([[5]], [[]], vocabulary=VOCABULARY, max_length=8)
    assert batch["input_ids"].tolist() == [[CLS, 5, SEP, SEP]]
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 1]]


def test_an_empty_batch():
    assert pack([], vocabulary=VOCABULARY, max_length=8)["input_ids"].shape[0] == 0


def test_bad_input():
    with pytest.raises(InputError, match="max_length is 3; expected more than the 3 special"):
        pack([[5]], [[6]], vocabulary=VOCABULARY, max_length=3)
    with pytest.raises(InputError, match="2 first texts came with 1 second texts"):
        pack([[5], [6]], [[6]], vocabulary=VOCABULARY, max_length=9)
