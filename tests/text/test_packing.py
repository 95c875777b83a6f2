"""Truncation and packing of token ids, and encoded texts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from bert_keras.errors import InputError
from bert_keras.text.packing import encode, encode_masked, pack, pack_texts, truncated_lengths
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *map(str, range(5, 100))))
CLS, SEP = VOCABULARY.cls_id, VOCABULARY.sep_id


def truncated_one_by_one(length_a, length_b, limit):
    while length_a + length_b > limit:
        is_longer = length_a > length_b
        length_a, length_b = length_a - is_longer, length_b - (not is_longer)
    return length_a, length_b


def test_truncation_equals_the_step_by_step_rule():
    lengths = range(14)
    for limit in range(1, 14):
        for length_a in lengths:
            truncated = [truncated_lengths(length_a, length_b, limit=limit) for length_b in lengths]
            expected = [truncated_one_by_one(length_a, length_b, limit) for length_b in lengths]
            assert truncated == expected
    truncated_a, truncated_b = truncated_lengths(np.array([9, 5, 1]), np.array([3, 5, 20]), limit=9)
    assert (truncated_a.tolist(), truncated_b.tolist()) == ([6, 5, 1], [3, 4, 8])


def test_a_vocabulary_may_follow_the_rule_of_tokenizers():
    words = [f"w{number}" for number in range(14)]
    theirs = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, "w0"))
    for limit, a, b in itertools.product(range(1, 14), range(14), range(14)):
        theirs.enable_truncation(limit, strategy="longest_first")
        pair = theirs.encode(words[:a], words[:b], is_pretokenized=True)
        expected = [pair.sequence_ids.count(0), pair.sequence_ids.count(1)]
        assert [*truncated_lengths(a, b, limit=limit, shortens_first=True)] == expected
    vocabulary = replace(VOCABULARY, shortens_first=True)
    batch = pack([[5, 6, 7]], [[9, 10, 11]], vocabulary=vocabulary, max_length=8)
    assert batch["input_ids"].tolist() == [[CLS, 5, 6, SEP, 9, 10, 11, SEP]]


def test_pairs_exactly():
    batch = pack([[5, 6, 7], [8]], [[9], [10, 11]], vocabulary=VOCABULARY, max_length=128)
    assert {values.dtype.name for values in batch.values()} == {"int32"}
    expected = [[CLS, 5, 6, 7, SEP, 9, SEP], [CLS, 8, SEP, 10, 11, SEP, 0]]
    assert batch["input_ids"].tolist() == expected
    assert batch["input_mask"].tolist() == [[1] * 7, [1] * 6 + [0]]
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 0]]


def test_unusual_texts_exactly():
    batch = pack([[5, 6, 7]], [[10, 11, 12, 13]], vocabulary=VOCABULARY, max_length=8)
    assert batch["input_ids"].tolist() == [[CLS, 5, 6, 7, SEP, 10, 11, SEP]]
    batch = pack([[5]], [[]], vocabulary=VOCABULARY, max_length=8)
    assert batch["input_ids"].tolist() == [[CLS, 5, SEP, SEP]]
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 1]]
    assert pack([], vocabulary=VOCABULARY, max_length=8)["input_ids"].shape[0] == 0
    with pytest.raises(InputError):
        pack([[5]], [[6]], vocabulary=VOCABULARY, max_length=3)


def test_random_batches_equal_row_by_row_packing():
    random = np.random.default_rng(1)
    tokens = random.integers(5, 99, 500).astype(np.uint32)
    starts, lengths = random.integers(0, 480, (50, 2)), random.integers(0, 14, (50, 2))
    rows = pack_texts(tokens, starts, lengths, length=32, vocabulary=VOCABULARY)
    for row in range(50):
        (a, b), (m, n) = starts[row], lengths[row]
        ids = [CLS, *tokens[a : a + m], SEP, *tokens[b : b + n], SEP]
        padding = [0] * (32 - len(ids))
        assert rows["input_ids"][row].tolist() == [*ids, *padding]
        assert rows["input_mask"][row].tolist() == [1] * len(ids) + padding
        assert rows["segment_ids"][row].tolist() == [0] * (m + 2) + [1] * (n + 1) + padding


TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "red", "house", "[", "]", "mask")))


def test_only_encode_masked_reads_mask_tokens():
    assert encode(TOKENIZER, ["[MASK]"], max_length=9)["input_ids"].tolist() == [[2, 7, 9, 8, 3]]
    inputs = encode_masked(TOKENIZER, ["red", "[MASK] house [MASK]"], max_length=9)
    assert inputs["input_ids"].tolist() == [[2, 5, 3, 0, 0], [2, 4, 6, 4, 3]]
    assert inputs["masked_lm_positions"].tolist() == [[0, 0], [1, 3]]
    assert encode_masked(TOKENIZER, ["red"], max_length=9)["masked_lm_positions"].shape == (1, 0)


def test_other_texts_are_refused():
    one = ["red"]
    for texts in (one, [one, 9], [one, ["red", "house"]], [["é", 7]], [["é", "red \ud83d"]]):
        with pytest.raises(InputError):
            encode(TOKENIZER, *texts, max_length=9)
