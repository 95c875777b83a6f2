import string
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.tasks.texts import windows_of
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tests.unicode_texts import TEXTS as UNICODE_TEXTS

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
TEXTS = [*UNICODE_TEXTS, "the quick, brown x " * 263]


@pytest.fixture
def both(tmp_path):
    """The offline tokenizer and the one in the graph, for a vocabulary."""

    def make(vocabulary: Vocabulary, *, lowercase: bool, max_length: int = 512):
        vocabulary.save(tmp_path / "vocab.txt")
        reader = TextToInputs(tmp_path / "vocab.txt", lowercase=lowercase, max_length=max_length)
        return WordPieceTokenizer(vocabulary, lowercase=lowercase), reader

    return make


def in_graph(function):
    """Calls with one column of texts or two, each traced once for any number of texts."""
    graph = tf.function(function, autograph=False, reduce_retracing=True)
    traces = [
        graph.get_concrete_function(*number * [tf.TensorSpec([None], tf.string)])
        for number in (1, 2)
    ]
    return lambda *texts: traces[len(texts) - 1](*map(tf.constant, texts))


@pytest.mark.parametrize("lowercase", [True, False])
def test_pieces_are_those_of_the_offline_tokenizer(both, lowercase):
    offline, reader = both(SMALL, lowercase=lowercase)
    found = tf.function(reader.pieces, autograph=False)(tf.constant(TEXTS)).to_list()
    for text, ids, expected in zip(TEXTS, found, offline.ids_batch(TEXTS), strict=True):
        assert ids == expected, ascii(text[:60])


@pytest.mark.parametrize(
    ("max_length", "lowercase"),
    [
        (5, False),
        (17, True),
        pytest.param(4, True, marks=pytest.mark.slow),
        pytest.param(16, False, marks=pytest.mark.slow),
    ],
)
def test_inputs_are_those_of_pack(both, lowercase, max_length):
    offline, reader = both(SMALL, lowercase=lowercase, max_length=max_length)
    firsts = [*TEXTS, "a", "a b c", "a b c d e f g h", "a b c d e f g h i j k l m n o p"]
    seconds = firsts[::-1]
    ids, pair_ids = offline.ids_batch(firsts), offline.ids_batch(seconds)
    call = in_graph(reader)
    for texts, text_ids in (
        ((firsts,), (ids,)),
        ((firsts, seconds), (ids, pair_ids)),
        ((["a"], [""]), (offline.ids_batch(["a"]), [[]])),
        (([""],), ([[]],)),
    ):
        found = call(*texts)
        expected = pack(*text_ids, vocabulary=SMALL, max_length=max_length)
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert found[name].dtype == tf.int32
            np.testing.assert_array_equal(found[name].numpy(), array, err_msg=name)


def offline_windows(*texts, max_length: int, stride: int):
    """Inputs [B,W,T]; which windows of them are real [B,W]."""
    rows = np.arange(len(texts[0]))
    encoded = windows_of(
        texts,
        rows,
        max_length=max_length,
        stride=stride,
        vocabulary=SMALL,
        places=[f"row {row}" for row in rows],
    )
    inputs, _ = encoded.batch(rows)
    return inputs, inputs["input_mask"].any(axis=-1)


@pytest.mark.parametrize(
    ("max_length", "stride"),
    [
        (5, 9),
        (17, 13),
        pytest.param(4, 1, marks=pytest.mark.slow),
        pytest.param(64, 60, marks=pytest.mark.slow),
    ],
)
def test_windows_are_those_of_training(both, max_length, stride):
    offline, reader = both(SMALL, lowercase=True, max_length=max_length)
    lasts = [*TEXTS, *("a " * length for length in range(3 * max_length)), ""]
    firsts = [
        "b " * max(room, 0) for room in (index % max_length - 3 for index in range(len(lasts)))
    ]
    call = in_graph(partial(reader.windows, stride=stride))
    for texts in ((lasts,), (firsts, lasts), ([""],), ([""], [""])):
        ids = [offline.ids_batch(text) for text in texts]
        expected, is_real = offline_windows(*ids, max_length=max_length, stride=stride)
        found = call(*texts)
        assert found.num_texts == len(texts[0])
        np.testing.assert_array_equal(found.owners.numpy(), np.nonzero(is_real)[0])
        for name, array in expected.items():
            assert found.inputs[name].dtype == tf.int32
            np.testing.assert_array_equal(found.inputs[name].numpy(), array[is_real], err_msg=name)


def test_a_first_text_that_leaves_no_room_is_cut_with_the_second(both):
    offline, reader = both(SMALL, lowercase=True, max_length=9)
    firsts, seconds = ["a " * 6, "a " * 6, "a"], ["b " * 20, "", "c " * 9]
    found = reader.windows(tf.constant(firsts), tf.constant(seconds), stride=5)
    assert found.owners.numpy().tolist() == [0, 1, 2, 2]
    ids = [offline.ids_batch(texts[:2]) for texts in (firsts, seconds)]
    expected = pack(*ids, vocabulary=SMALL, max_length=9)
    for name, array in expected.items():
        np.testing.assert_array_equal(found.inputs[name][:2].numpy(), array, err_msg=name)


def test_texts_and_pairs_of_unlike_number_do_not_run(both):
    _, reader = both(SMALL, lowercase=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        reader(tf.constant(["a", "b", "c"]), tf.constant(["d"]))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_pieces_of_real_lines_are_those_of_the_offline_tokenizer(both, shared_data, case):
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{case}-vocab.txt")
    offline, reader = both(vocabulary, lowercase=case == "uncased")
    corpora = [shared_data / "corpus" / name for name in ("books.txt", "wiki.txt")]
    lines = [line for path in corpora for line in path.read_text("utf-8").split("\n")[::25]]
    assert tf.function(reader.pieces)(tf.constant(lines)).to_list() == offline.ids_batch(lines)
