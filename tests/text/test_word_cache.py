"""The cache of words gives the ids of the tokenizer."""

import sys

import numpy as np
import pytest

from bert_keras.text.tokenizer import WordCache, WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary(
    (*SPECIAL_TOKENS, *"abcxyz.,'", *(f"##{each}" for each in "abcxyz'."), "中")
)


def assert_equal(tokenizer, texts):
    ids, lengths = tokenizer.flat_ids(texts)
    expected = tokenizer.ids_batch(texts)
    assert lengths.tolist() == [len(each) for each in expected]
    assert ids.tolist() == [number for each in expected for number in each]
    assert ids.dtype == np.int32
    assert lengths.dtype == np.int64


@pytest.mark.parametrize("stride", [61, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lowercase", [True, False])
def test_rare_characters_beside_letters_spaces_and_punctuation(lowercase, stride):
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=lowercase)
    codes = [*range(512), *range(512, 0x3000, stride), *range(0x3000, sys.maxunicode, 41 * stride)]
    rare = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    assert_equal(tokenizer, [f"a{each}b {each},c'{each} ,{each}.{each}" for each in rare])


def test_unusual_texts():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    long = "a" * 250
    assert_equal(
        tokenizer, ["", " ", "  a  ", "\ta\nb\r", f"{long} {long[:200]}.{long}", "[CLS] a"]
    )
    assert_equal(tokenizer, ["a\nb", "", "\n", " \n c"])
    assert_equal(tokenizer, ["\n"])
    assert_equal(tokenizer, [])
    assert_equal(tokenizer, [""])


def test_each_word_is_tokenized_once_and_a_full_cache_is_cleared(monkeypatch):
    monkeypatch.setattr("bert_keras.text.tokenizer.MAX_CACHED_WORDS", 4)
    tokenized = []

    def tokenize(texts):
        tokenized.extend(texts)
        return [[len(text)] for text in texts]

    cache = WordCache(tokenize)
    for number in range(5):
        ids, _ = cache.flat_ids([f"{'b' * (number + 1)} a"])
        assert ids.tolist() == [number + 1, 1]
    assert tokenized.count("bb") == 1
    assert tokenized.count("a") == 2


def test_an_interrupted_call_leaves_no_wrong_ids():
    interrupts = [KeyboardInterrupt]

    def tokenize(texts):
        if "bb" in texts and interrupts:
            raise interrupts.pop()
        return [[len(text)] for text in texts]

    cache = WordCache(tokenize)
    cache.flat_ids(["a"])
    with pytest.raises(KeyboardInterrupt):
        cache.flat_ids(["bb ccc"])
    assert cache.flat_ids(["ccc a bb dddd"])[0].tolist() == [3, 1, 2, 4]


def test_real_text(shared_data):
    vocabulary = Vocabulary.from_file(shared_data / "vocab/bert-base-uncased-vocab.txt")
    lines = (shared_data / "corpus/wiki.txt").read_text("utf-8").split("\n")[::400]
    assert_equal(WordPieceTokenizer(vocabulary), lines)
