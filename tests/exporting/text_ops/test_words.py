import random
import sys
import unicodedata

import pytest
import tensorflow as tf

from bert_keras.exporting.text_ops.words import words_of
from bert_keras.text.google_words import google_words
from tests.unicode_texts import TEXTS


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def reader(request):
    """Returns a graph that splits texts into words, and whether it converts them to lower case."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def words(texts):
        return tf.strings.unicode_encode(words_of(texts, lowercase=request.param).words, "UTF-8")

    return words, request.param


def assert_words_equal_google_words(reader, texts):
    """A test in tests/text compares `google_words` with Google's code."""
    words, lowercase = reader
    rows = words(tf.constant(texts, tf.string)).to_list()
    for text, row in zip(texts, rows, strict=True):
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
    wide_marks = "\u302e\u302f\U0001d165\U0001d16d\U00016ff0\u0941\u0323"
    texts = list(TEXTS)
    for _ in range(1500):
        some = [*rng.sample(characters, 9), *rng.sample(wide_marks, 3), *"aB Σ.'"]
        texts.append("".join(rng.choices(some, k=rng.randrange(30))))
    assert_words_equal_google_words(reader, texts)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["", ""],
        ["a", ""],
        ["", "a b"],
        ["\0", "\u0301"],
        ["ΑΣ", "Α"],
        ["a\u302f", "\u302e"],
    ],
    ids=ascii,
)
def test_texts_of_a_batch_are_separate(reader, texts):
    assert_words_equal_google_words(reader, texts)


def test_invalid_utf8_bytes_are_dropped_as_in_python(reader):
    rng = random.Random(2)
    some = [b"a", "é".encode(), "中".encode(), b"\xe4\xb8", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    some += [bytes([byte]) for byte in range(0x80, 0x100)]
    texts = [b"".join(rng.choices(some, k=rng.randrange(8))) for _ in range(1000)]
    words, lowercase = reader
    for text, row in zip(texts, words(tf.constant(texts)).to_list(), strict=True):
        decoded = google_words(text.decode("utf-8", "ignore"), lowercase=lowercase)
        assert row == [word.text.encode() for word in decoded], text


def test_no_op_depends_on_the_tables_or_locale_of_a_server(reader):
    words, _ = reader
    ops = {node.op for node in words.get_concrete_function().graph.as_graph_def().node}
    assert "UnicodeDecode" in ops
    assert not [op for op in ops if "Regex" in op or "Normalize" in op or "Low" in op]
