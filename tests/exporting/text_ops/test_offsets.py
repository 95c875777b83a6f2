import random
import string
from functools import cache

import pytest
import tensorflow as tf

from bert_keras.downstream.squad.answers import cut
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.unicode_texts import TEXTS

LETTERS = string.ascii_letters + string.digits + "éßıİΣσςабАſﬁ東日한ᄒ😀́𐐨"
SMALL = Vocabulary(
    (
        *SPECIAL_TOKENS,
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
        *string.punctuation,
        *("cafe", "mask", "##the", "the", "x" * 150, "##" + "x" * 50, "¡", "—"),
    )
)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def both(request, tmp_path_factory):
    """Returns the offline tokenizer, and a graph with the tokens, spans and words of each text."""

    @cache
    def make(vocabulary=SMALL):
        file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
        vocabulary.save(file)
        reader = TextToInputs(file, lowercase=request.param, max_length=9)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        def in_graph(texts):
            tokens = reader.tokens_with_offsets(texts)
            text_ids = tokens.ids.value_rowids()
            spans = [tokens.source.in_text(each, text_ids) for each in (tokens.starts, tokens.ends)]
            of_words = reader.word_tokens(texts)
            words = tf.RaggedTensor.from_row_splits(of_words.first_tokens, of_words.splits)
            tf.debugging.assert_equal(of_words.ids.values, tokens.ids.values)
            return tokens.ids, tokens.ids.with_values(tf.stack(spans, axis=1)), words

        return WordPieceTokenizer(vocabulary, lowercase=request.param), in_graph

    return make


def assert_offsets_are_equal(both, texts, encoded=None):
    offline, in_graph = both
    ids, spans, words = in_graph(tf.constant(texts if encoded is None else encoded, tf.string))
    spans, start = spans.to_list(), 0
    for text, expected, ids_of_text, spans_of_text, first_tokens in zip(
        texts, offline.encode_batch(texts), ids.to_list(), spans, words.to_list(), strict=True
    ):
        offsets = [tuple(span) for span in spans_of_text]
        assert (ids_of_text, offsets) == (expected.ids, expected.offsets), ascii(text)
        tokens = enumerate(expected.tokens, start=start)
        assert first_tokens == [index for index, token in tokens if not token.startswith("##")]
        start += len(expected.ids)


def test_offsets_of_the_unicode_suite(both):
    assert_offsets_are_equal(both(), [*TEXTS, "the quick, brown x " * 263, "\ufeffa\ufeff b"])


def test_offsets_of_characters_in_any_order(both):
    rng = random.Random(5)
    characters = sorted(set("".join(TEXTS)))
    wide_marks = "\u302e\u302f\U0001d165\U0001d16d\U00016ff0\u0941\u0323"
    texts = []
    for _ in range(1000):
        some = [*rng.sample(characters, 9), *rng.sample(wide_marks, 3), *"aB Σ.'"]
        texts.append("".join(rng.choices(some, k=rng.randrange(30))))
    assert_offsets_are_equal(both(), texts)


@pytest.mark.parametrize("texts", [[], [""], ["", "a", ""], ["\0"], ["\u0301", "b"]], ids=ascii)
def test_offsets_of_empty_and_short_texts(both, texts):
    assert_offsets_are_equal(both(), texts)


def test_invalid_utf8_bytes_are_not_counted(both):
    rng = random.Random(2)
    some = [b"a", "é".encode(), "中".encode(), b"\xe4\xb8", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    some += [bytes([byte]) for byte in range(0x80, 0x100)]
    encoded = [b"".join(rng.choices(some, k=rng.randrange(8))) for _ in range(700)]
    assert_offsets_are_equal(both(), [text.decode("utf-8", "ignore") for text in encoded], encoded)


def test_spans_include_their_combining_marks(tmp_path):
    SMALL.save(tmp_path / "vocab.txt")
    reader = TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=9)
    texts = [text for text in TEXTS if text]
    spans = [(start, end) for text in texts for end in range(len(text) + 1)
              for start in {0, end // 2}]  # fmt: skip
    text_ids = [row for row, text in enumerate(texts) for end in range(len(text) + 1)
              for _ in {0, end // 2}]  # fmt: skip

    @tf.function(autograph=False)
    def graph_cuts():
        tokens = reader.tokens_with_offsets(tf.constant(texts))
        source = tokens.source
        text_starts = tf.gather(source.splits, text_ids)[:, None]
        starts, ends = tf.unstack(tf.constant(spans, tf.int64) + text_starts, axis=1)
        return source.cut(starts, source.after_marks(ends))

    cuts = [cut(texts[row], *span) for row, span in zip(text_ids, spans, strict=True)]
    assert any(len(text) > end - start for text, (start, end) in zip(cuts, spans, strict=True))
    assert graph_cuts().numpy().tolist() == [text.encode() for text in cuts]


@pytest.mark.slow
@pytest.mark.parametrize(("both", "case"), [(True, "uncased"), (False, "cased")], indirect=["both"])
def test_offsets_of_real_lines(both, shared_data, case):
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{case}-vocab.txt")
    corpora = [shared_data / "corpus" / name for name in ("books.txt", "wiki.txt")]
    lines = [line for path in corpora for line in path.read_text("utf-8").split("\n")[::25]]
    assert_offsets_are_equal(both(vocabulary), lines)
