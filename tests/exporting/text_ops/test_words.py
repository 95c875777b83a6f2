"""Words in a graph equal those of `google_words`, which equal Google's by a test in tests/text."""

import random
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.text_ops.unicode_tables import (
    ACCENT,
    ALONE,
    BLOCK,
    CASED,
    COMBINING_CLASS,
    DROPPED,
    IGNORABLE,
    SPACE,
    lowercase_decomposed,
    properties,
)
from bert_keras.exporting.text_ops.words import words_of
from bert_keras.text.google_words import google_words
from tests.unicode_texts import TEXTS

WIDE_MARKS = "\u302e\u302f\U0001d165\U0001d16d\U00016ff0\u0941\u0323"


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def reader(request):
    """Returns a graph that splits texts into words, and whether it converts them to lower case."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def words(texts):
        return tf.strings.unicode_encode(words_of(texts, lowercase=request.param).words, "UTF-8")

    return words, request.param


def assert_words_equal_google_words(reader, texts):
    words, lowercase = reader
    rows = words(tf.constant(texts, tf.string)).to_list()
    for text, row in zip(texts, rows, strict=True):
        text = text if isinstance(text, str) else text.decode("utf-8", "ignore")
        expected = [word.text.encode() for word in google_words(text, lowercase=lowercase)]
        assert row == expected, ascii(text)


def test_every_character(reader):
    """Ideographs, private and unassigned characters are sampled, because all behave alike."""
    sampled = {"Lo", "Co", "Cn"}
    characters = [
        chr(point)
        for point in range(sys.maxunicode + 1)
        if not 0xD800 <= point < 0xE000
        and (point % 1009 == 0 or unicodedata.category(chr(point)) not in sampled)
    ]
    edges = "㐀䶿一鿿豈\ufaff\U00020000\U0002a6df\U0002a700\U0002b81f\U0002b820\U0002ceaf\U0002ceb0"
    texts = [f"a{character}B {character}, c" for character in [*characters, *edges]]
    assert_words_equal_google_words(reader, texts)


def test_characters_of_the_unicode_suite_in_any_order(reader):
    rng = random.Random(11)
    characters = sorted(set("".join(TEXTS)))
    texts = list(TEXTS)
    for _ in range(1500):
        some = [*rng.sample(characters, 9), *rng.sample(WIDE_MARKS, 3), *"aB Σ.'"]
        texts.append("".join(rng.choices(some, k=rng.randrange(30))))
    assert_words_equal_google_words(reader, texts)


@pytest.mark.parametrize(
    "texts",
    [[], ["", ""], ["", "a b", ""], ["\0", "\u0301"], ["ΑΣ", "Α"], ["a\u302f", "\u302e"]],
    ids=ascii,
)
def test_texts_of_a_batch_are_separate(reader, texts):
    assert_words_equal_google_words(reader, texts)


def test_invalid_utf8_bytes_are_dropped_as_in_python(reader):
    rng = random.Random(2)
    some = [b"a", "é".encode(), "中".encode(), b"\xe4\xb8", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    some += [bytes([byte]) for byte in range(0x80, 0x100)]
    texts = [b"".join(rng.choices(some, k=rng.randrange(8))) for _ in range(1000)]
    assert_words_equal_google_words(reader, texts)


def test_no_op_depends_on_the_tables_or_locale_of_a_server(reader):
    words, _ = reader
    ops = {node.op for node in words.get_concrete_function().graph.as_graph_def().node}
    assert "UnicodeDecode" in ops
    assert not [op for op in ops if "Regex" in op or "Normalize" in op or "Low" in op]


FLAGS = {"alone": ALONE, "space": SPACE, "dropped": DROPPED, "accent": ACCENT}
FLAGS |= {"cased": CASED, "ignorable": IGNORABLE}


def looked_up(table, character):
    return table.values[table.starts[ord(character) // BLOCK] + ord(character) % BLOCK]


def test_properties_and_combining_classes():
    def flags(character):
        bits = looked_up(properties(), character)
        return {name for name, flag in FLAGS.items() if bits & flag}

    assert flags("a") == flags("Σ") == flags("ª") == {"cased"}
    assert flags("字") == flags("$") == flags("—") == {"alone"}
    assert flags("'") == flags("^") == {"alone", "ignorable"}
    assert flags(" ") == flags("\n") == flags("\u3000") == flags("\u2028") == {"space"}
    assert flags("\u0301") == flags("\u0345") == {"accent", "ignorable"}
    assert flags("\0") >= {"dropped", "ignorable"} <= flags("\u200b")
    assert flags("ا") == flags("\ue000") == flags("한") == set()
    characters = [*map(chr, range(sys.maxunicode + 1))]
    classes = [looked_up(properties(), each) & COMBINING_CLASS for each in characters]
    assert classes == [*map(unicodedata.combining, characters)]


def test_tables_are_small():
    """Every exported graph contains them."""
    tables = (*properties(), *lowercase_decomposed().indices, *lowercase_decomposed()[1:])
    assert sum(array.nbytes for array in tables) < 600_000
    assert {array.dtype for array in tables} == {np.dtype(np.int32)}
