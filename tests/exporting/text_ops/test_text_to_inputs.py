"""Words, ids, offsets and inputs of WordPiece texts in a graph equal those of the offline code.

A test in tests/text compares `google_words` with Google's code.
"""

import random
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.exporting.text_ops.text_to_inputs import MaskedTextToInputs, TextToInputs
from bert_keras.exporting.text_ops.words import split_words
from bert_keras.text.packing import encode, encode_masked, ids_with_masks
from bert_keras.text.tokenizer import WordPieceTokenizer, google_words
from tests.factories import letter_vocabulary
from tests.multilingual_texts import DECOMPOSED, SENTENCES
from tests.unicode_texts import TEXTS as UNICODE_TEXTS
from tests.unicode_texts import characters_in_any_order, in_graphs, random_parts, some_characters

SMALL = letter_vocabulary(
    *("cafe", "mask", "##the", "the", "x" * 150, "##" + "x" * 50, "¡", "—"),
    letters="éßıİΣσςабАſﬁ東日한ᄒ😀\u0301𐐨",
)
TEXTS = [*in_graphs(UNICODE_TEXTS), "the quick, brown x " * 263, "\ufeffa\ufeff b"]
BOTH_CASES = pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])


@pytest.fixture
def both(tmp_path):
    """Returns a function that builds the offline and the graph tokenizer of a vocabulary."""

    def make(vocabulary=SMALL, *, lowercase=True, kind=TextToInputs, **settings):
        vocabulary.save(tmp_path / "vocab.txt")
        settings = {"max_length": 512, "shortens_first": False} | settings
        reader = kind(tmp_path / "vocab.txt", lowercase=lowercase, **settings)
        vocabulary = replace(vocabulary, shortens_first=settings["shortens_first"])
        return WordPieceTokenizer(vocabulary, lowercase=lowercase), reader

    return make


def in_graph(function):
    """Traces `function` once for one column of texts and once for two."""
    graph = tf.function(function, autograph=False, reduce_retracing=True)
    spec = tf.TensorSpec([None], tf.string)
    traces = [graph.get_concrete_function(spec), graph.get_concrete_function(spec, spec)]
    return lambda *texts: traces[len(texts) - 1](*map(tf.constant, texts))


def assert_inputs_are(inputs, expected):
    assert {each.dtype for each in inputs.values()} == {tf.int32}
    np.testing.assert_equal({name: each.numpy() for name, each in inputs.items()}, expected)


def assert_tokens_are_equal(both, *columns, encoded=None):
    """Compares words, ids, offsets and the first tokens of words of each column of texts."""
    offline, reader = both

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def graph(texts):
        tokens = reader.tokens_with_offsets(texts)
        text_ids = tokens.ids.value_rowids()
        spans = [tokens.source.in_text(each, text_ids) for each in (tokens.starts, tokens.ends)]
        of_words = reader.unit_tokens(texts, unit="word")
        first_tokens = tf.RaggedTensor.from_row_splits(of_words.first_tokens, of_words.splits)
        tf.debugging.assert_equal(of_words.ids.values, tokens.ids.values)
        words, *_ = split_words(texts, lowercase=reader.lowercase)
        words = tf.strings.unicode_encode(words, "UTF-8")
        return words, tokens.ids, tokens.ids.with_values(tf.stack(spans, axis=1)), first_tokens

    for texts in columns:
        outputs = graph(tf.constant(texts if encoded is None else encoded, tf.string))
        rows, start = zip(*(each.to_list() for each in outputs), strict=True), 0
        for text, expected, row in zip(texts, offline.encode_batch(texts), rows, strict=True):
            words, ids, spans, first_tokens = row
            google = google_words(text, lowercase=offline.lowercase)
            assert words == [word.text.encode() for word in google], ascii(text)
            assert (ids, [*map(tuple, spans)]) == (expected.ids, expected.offsets), ascii(text)
            tokens = enumerate(expected.tokens, start=start)
            assert first_tokens == [index for index, token in tokens if not token.startswith("##")]
            start += len(expected.ids)


@BOTH_CASES
def test_tokens_of_the_unicode_suite_every_character_and_characters_in_any_order(both, lowercase):
    short = [], [""], ["", "a", ""], ["\0"], ["\u0301", "b"], ["ΑΣ", "Α"]
    every = [f"a{each}B {each}, c" for each in some_characters()]
    columns = TEXTS, *short, *map(in_graphs, (every, characters_in_any_order(2000)))
    assert_tokens_are_equal(both(lowercase=lowercase), *columns)


@BOTH_CASES
def test_no_op_of_words_depends_on_the_tables_or_locale_of_a_server(lowercase):
    spec = tf.TensorSpec([None], tf.string)
    graph = tf.function(lambda text: split_words(text, lowercase=lowercase)[0], autograph=False)
    ops = {node.op for node in graph.get_concrete_function(spec).graph.as_graph_def().node}
    assert "UnicodeDecode" in ops
    assert not [op for op in ops if "Regex" in op or "Normalize" in op or "Low" in op]


def test_invalid_utf8_bytes_are_not_counted(both):
    rng = random.Random(2)
    some = [b"a", "é".encode(), "中".encode(), b"\xe4\xb8", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    some += [bytes([byte]) for byte in range(0x80, 0x100)]
    encoded = [b"".join(rng.choices(some, k=rng.randrange(8))) for _ in range(700)]
    texts = [text.decode("utf-8", "ignore") for text in encoded]
    assert_tokens_are_equal(both(), texts, encoded=encoded)


@pytest.mark.parametrize("name", ["klue-roberta", "koelectra", "multilingual-bert"])
def test_cased_korean_tokens(both, vocabulary_of, name):
    texts = [*SENTENCES, *DECOMPOSED]
    offline, reader = both(vocabulary_of(name), lowercase=False)
    assert reader.tokens(tf.constant(texts)).to_list() == offline.ids_batch(texts)


@pytest.mark.parametrize(
    ("max_length", "lowercase"),
    [(5, False), (17, True), pytest.param(4, True, marks=pytest.mark.slow)],
)
def test_inputs_of_texts_and_pairs(both, lowercase, max_length):
    offline, reader = both(lowercase=lowercase, max_length=max_length, shortens_first=lowercase)
    first_texts = [*TEXTS, "a", "a b c", "a b c d e f g h", "a b c d e f g h i j k l m n o p"]
    call = in_graph(reader)
    for texts in ((first_texts,), (first_texts, first_texts[::-1]), (["a"], [""]), ([""],)):
        assert_inputs_are(call(*texts), encode(offline, *texts, max_length=max_length))
    with pytest.raises(tf.errors.InvalidArgumentError):
        reader(tf.constant(["a", "b", "c"]), tf.constant(["d"]))


@pytest.mark.parametrize("lowercase", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_masks_in_texts(both, lowercase):
    offline, reader = both(lowercase=lowercase, max_length=24, kind=MaskedTextToInputs)
    rng = random.Random(5)
    texts = ["[MASK]".join(random_parts(text, rng, most=4)) for text in UNICODE_TEXTS]
    texts += ["", "[MASK]", "[MASK][MASK]", "[mask] [ MASK]", "a [MASK", "Σ[MASK]ΑΣ", "x " * 40]
    ids = ids_with_masks(texts, offline)
    assert sum(SMALL.mask_id in each for each in ids) > 50
    assert tf.function(reader.tokens, autograph=False)(tf.constant(texts)).to_list() == ids
    expected = encode_masked(offline, texts, texts[::-1], max_length=24)
    del expected["masked_lm_positions"]
    assert_inputs_are(in_graph(reader)(texts, texts[::-1]), expected)
    assert reader.tokens(tf.constant([""])).to_list() == [[]]
