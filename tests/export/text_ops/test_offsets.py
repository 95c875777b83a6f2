import random
import string
from functools import cache

import pytest
import tensorflow as tf

from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.tasks.squad.predictions import cut
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tests.unicode_texts import TEXTS

LETTERS = string.ascii_letters + string.digits + "éßıİΣσςабАſﬁ東日한ᄒ😀́𐐨"
SMALL = Vocabulary(
    (
        *SPECIAL_PIECES,
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
        *string.punctuation,
        *("cafe", "mask", "##the", "the", "x" * 150, "##" + "x" * 50, "¡", "—"),
    )
)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def both(request, tmp_path_factory):
    """The offline tokenizer; the pieces, starts, ends and words of each text by the graph."""

    @cache
    def make(vocabulary=SMALL):
        file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
        vocabulary.save(file)
        reader = TextToInputs(file, lowercase=request.param, max_length=9)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        def placed(texts):
            pieces = reader.placed_pieces(texts)
            owners = pieces.ids.value_rowids()
            spans = [pieces.given.in_text(each, owners) for each in (pieces.starts, pieces.ends)]
            of_words = reader.placed_word_pieces(texts)
            words = tf.RaggedTensor.from_row_splits(of_words.firsts, of_words.splits)
            tf.debugging.assert_equal(of_words.ids.values, pieces.ids.values)
            return pieces.ids, pieces.ids.with_values(tf.stack(spans, axis=1)), words

        return WordPieceTokenizer(vocabulary, lowercase=request.param), placed

    return make


def assert_offsets_are_equal(both, texts, given=None):
    offline, placed = both
    ids, spans, words = placed(tf.constant(texts if given is None else given, tf.string))
    spans, begin = spans.to_list(), 0
    for text, expected, *found, first in zip(
        texts, offline.encode_batch(texts), ids.to_list(), spans, words.to_list(), strict=True
    ):
        offsets = [tuple(span) for span in found[1]]
        assert (found[0], offsets) == (expected.ids, expected.offsets), ascii(text)
        pieces = enumerate(expected.pieces, start=begin)
        assert first == [place for place, piece in pieces if not piece.startswith("##")]
        begin += len(expected.ids)


def test_offsets_of_the_unicode_suite(both):
    assert_offsets_are_equal(both(), [*TEXTS, "the quick, brown x " * 263, "\ufeffa\ufeff b"])


def test_offsets_of_characters_in_any_order(both):
    pick = random.Random(5)
    characters = sorted(set("".join(TEXTS)))
    wide_marks = "\u302e\u302f\U0001d165\U0001d16d\U00016ff0\u0941\u0323"
    texts = []
    for _ in range(1000):
        some = [*pick.sample(characters, 9), *pick.sample(wide_marks, 3), *"aB Σ.'"]
        texts.append("".join(pick.choices(some, k=pick.randrange(30))))
    assert_offsets_are_equal(both(), texts)


@pytest.mark.parametrize("texts", [[], [""], ["", "a", ""], ["\0"], ["\u0301", "b"]], ids=ascii)
def test_offsets_of_little(both, texts):
    assert_offsets_are_equal(both(), texts)


def test_bytes_that_are_no_utf8_are_not_counted(both):
    pick = random.Random(2)
    some = [b"a", "é".encode(), "中".encode(), b"\xe4\xb8", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    some += [bytes([byte]) for byte in range(0x80, 0x100)]
    given = [b"".join(pick.choices(some, k=pick.randrange(8))) for _ in range(700)]
    assert_offsets_are_equal(both(), [text.decode("utf-8", "ignore") for text in given], given)


def test_spans_are_cut_with_their_marks(tmp_path):
    SMALL.save(tmp_path / "vocab.txt")
    reader = TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=9)
    texts = [text for text in TEXTS if text]
    places = [(start, end) for text in texts for end in range(len(text) + 1)
              for start in {0, end // 2}]  # fmt: skip
    owners = [row for row, text in enumerate(texts) for end in range(len(text) + 1)
              for _ in {0, end // 2}]  # fmt: skip

    @tf.function(autograph=False)
    def found():
        pieces = reader.placed_pieces(tf.constant(texts))
        given = pieces.given
        begins = tf.gather(given.splits, owners)[:, None]
        starts, ends = tf.unstack(tf.constant(places, tf.int64) + begins, axis=1)
        return given.cut(starts, given.after_marks(ends))

    cuts = [cut(texts[row], *span) for row, span in zip(owners, places, strict=True)]
    assert any(len(text) > end - start for text, (start, end) in zip(cuts, places, strict=True))
    assert found().numpy().tolist() == [text.encode() for text in cuts]


@pytest.mark.slow
@pytest.mark.parametrize(("both", "case"), [(True, "uncased"), (False, "cased")], indirect=["both"])
def test_offsets_of_real_lines(both, shared_data, case):
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{case}-vocab.txt")
    corpora = [shared_data / "corpus" / name for name in ("books.txt", "wiki.txt")]
    lines = [line for path in corpora for line in path.read_text("utf-8").split("\n")[::25]]
    assert_offsets_are_equal(both(vocabulary), lines)
