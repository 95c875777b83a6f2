import random
import sys
from collections import Counter

import pytest
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.text.tokenizer import normalizer
from tfrecords_tools.vocab.word_counts import words_of


def counted_one_by_one(text, *, lowercase):
    normalized = normalizer(lowercase=lowercase).normalize_str(text)
    return Counter(word for word, _ in BertPreTokenizer().pre_tokenize_str(normalized))


def test_words_as_the_tokenizer_sees_them():
    text = "The café, the CAFE\u0301! [MASK] 日本 a\u200bb a\tb\x0cc don't"
    counts = {"the": 2, "cafe": 2, ",": 1, "!": 1, "[": 1, "]": 1, "mask": 1, "日": 1, "本": 1}
    rest = {"ab": 1, "a": 1, "bc": 1, "don": 1, "'": 1, "t": 1}
    assert words_of([text], lowercase=True) == {**counts, **rest}
    cased = words_of([text], lowercase=False)
    assert cased["The"] == cased["café"] == cased["MASK"] == 1


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_character_counts_as_one_by_one(lowercase):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    rare = [each for each in characters if ord(each) < 0x600 or ord(each) % 1601 == 0]
    text = " ".join(f"a{each}b {each} .{each}, {each}A{each}{each}" for each in rare)
    assert words_of([text], lowercase=lowercase) == counted_one_by_one(text, lowercase=lowercase)


@pytest.mark.parametrize("seed", range(5))
def test_random_texts_count_as_one_by_one(seed):
    letters = "aAbB.,-'é\u0301İßΣςﬁ日本。「あア\u200b\u00a0\u2028\t\x0c\x00🙂1٣" + " " * 10
    text = "".join(random.Random(seed).choices(letters, k=4000))
    for lowercase in (True, False):
        assert words_of([text], lowercase=lowercase) == counted_one_by_one(
            text, lowercase=lowercase
        )


def test_lines_add_up():
    lines = ["a b.", "", "a日 b", "c\ta"]
    assert words_of(lines, lowercase=True) == {"a": 3, "b": 2, ".": 1, "日": 1, "c": 1}
    assert words_of([""], lowercase=True) == words_of([], lowercase=True) == {}
