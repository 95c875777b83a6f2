import string

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import BertPreTokenizer, WordPieceTokenizer, normalizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

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
TRICKY = [
    "",
    " \t\r\n ",
    "Hello, the café! CAFÉ cafe\u0301",
    "a\u200bb a\u00adb\ufeffc\u200dd",
    "İstanbul ısı TITLE",
    "Straße ß ẞ",
    "ﬁne ﬁ ſ",
    "ΟΔΟΣ Σ ς σαβΣ",
    "日本the한국 東 한",
    "x\ufffdy \ufffd",
    "a\x00b \x00 c\x01\x7f\x80d",
    "a\ue000b \U000f0000",
    "x" * 200,
    "x" * 201,
    "x" * 250,
    "東" * 150 + " " + "σ" * 150 + " " + "Σ" * 201,
    "𐐨" * 200 + " " + "𐐨" * 201,
    "e\u0301" * 150,
    "a 😀 b😀c",
    "tabs\tand\nlines\r\nend",
    "[MASK] [CLS][SEP] [PAD] [UNK] [unused1]",
    "don't--stop... $5.00 ^_^ `a` ~x~ {a|b} <c> a+b=c",
    "a\u00a0b\u3000c\u2009d a\u2028b\u2029c\x85d\x1cd\x0be",
    "¡que? «the» “the” the…the—the",
    "𠀀𠀁 \U0002f800 \uf900 \U0002b830 \U0002b920",
    "абв АБВ",
    "the quick, brown x " * 263,
]


@pytest.fixture
def both(tmp_path):
    """The offline tokenizer and the one in the graph, for a vocabulary."""

    def make(vocabulary: Vocabulary, *, lowercase: bool, max_length: int = 512):
        vocabulary.save(tmp_path / "vocab.txt")
        reader = TextToInputs(tmp_path / "vocab.txt", lowercase=lowercase, max_length=max_length)
        return WordPieceTokenizer(vocabulary, lowercase=lowercase), reader

    return make


@pytest.mark.parametrize("lowercase", [True, False])
def test_pieces_are_those_of_the_offline_tokenizer(both, lowercase):
    offline, reader = both(SMALL, lowercase=lowercase)
    found = tf.function(reader.pieces)(tf.constant(TRICKY)).to_list()
    for text, ids, expected in zip(TRICKY, found, offline.ids_batch(TRICKY), strict=True):
        assert ids == expected, text[:60]


def test_every_code_point_but_the_known_newer_ones_reads_as_offline(both):
    _, reader = both(SMALL, lowercase=True)
    offline, split = normalizer(lowercase=True), BertPreTokenizer()
    points = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    texts = [f"a{point}B" for point in points]
    found = tf.function(reader.words)(tf.constant(texts))
    flat, splits = found.values.numpy().tolist(), found.row_splits.numpy().tolist()
    different = []
    for row, text in enumerate(texts):
        words = b"\0".join(flat[splits[row] : splits[row + 1]]).decode()
        normal = offline.normalize_str(text)
        if words != normal and words != "\0".join(w for w, _ in split.pre_tokenize_str(normal)):
            different.append(points[row])
    assert len(different) <= 684
    assert min(different) == "\u061d"  # ARABIC END OF TEXT MARK, Unicode 14


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("max_length", [4, 5, 16, 17])
def test_inputs_are_those_of_pack(both, lowercase, max_length):
    offline, reader = both(SMALL, lowercase=lowercase, max_length=max_length)
    firsts = [*TRICKY, "a", "a b c", "a b c d e f g h", "a b c d e f g h i j k l m n o p"]
    seconds = firsts[::-1]
    ids, pair_ids = offline.ids_batch(firsts), offline.ids_batch(seconds)
    call = tf.function(reader)
    for found, expected in (
        (call(tf.constant(firsts)), (ids,)),
        (call(tf.constant(firsts), tf.constant(seconds)), (ids, pair_ids)),
        (call(tf.constant(["a"]), tf.constant([""])), (offline.ids_batch(["a"]), [[]])),
        (call(tf.constant([""])), ([[]],)),
    ):
        expected = pack(*expected, vocabulary=SMALL, max_length=max_length)
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert found[name].dtype == tf.int32
            np.testing.assert_array_equal(found[name].numpy(), array, err_msg=name)


def test_texts_and_pairs_of_unlike_number_do_not_run(both):
    _, reader = both(SMALL, lowercase=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        reader(tf.constant(["a", "b", "c"]), tf.constant(["d"]))


def test_bytes_that_are_no_utf8_are_dropped(both):
    _, reader = both(SMALL, lowercase=True)
    assert reader.words(tf.constant([b"a\xff\xc3b"])).to_list() == [[b"ab"]]


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_pieces_of_real_lines_are_those_of_the_offline_tokenizer(both, shared_data, case):
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{case}-vocab.txt")
    offline, reader = both(vocabulary, lowercase=case == "uncased")
    corpora = [shared_data / "corpus" / name for name in ("books.txt", "wiki.txt")]
    lines = [line for path in corpora for line in path.read_text("utf-8").split("\n")[::25]]
    assert tf.function(reader.pieces)(tf.constant(lines)).to_list() == offline.ids_batch(lines)
