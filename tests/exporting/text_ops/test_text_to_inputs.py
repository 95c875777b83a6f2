import string
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.downstream.texts import windows_of
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.multilingual_texts import DECOMPOSED, SENTENCES
from tests.unicode_texts import TEXTS as UNICODE_TEXTS

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
TEXTS = [*UNICODE_TEXTS, "the quick, brown x " * 263]


@pytest.fixture
def both(tmp_path):
    """Returns a function that builds the offline and the graph tokenizer of a vocabulary."""

    def make(vocabulary: Vocabulary, *, lowercase: bool, max_length: int = 512):
        vocabulary.save(tmp_path / "vocab.txt")
        reader = TextToInputs(tmp_path / "vocab.txt", lowercase=lowercase, max_length=max_length)
        return WordPieceTokenizer(vocabulary, lowercase=lowercase), reader

    return make


def in_graph(function):
    """Traces `function` once for one column of texts and once for two."""
    graph = tf.function(function, autograph=False, reduce_retracing=True)
    traces = [
        graph.get_concrete_function(*num_columns * [tf.TensorSpec([None], tf.string)])
        for num_columns in (1, 2)
    ]
    return lambda *texts: traces[len(texts) - 1](*map(tf.constant, texts))


@pytest.mark.parametrize("lowercase", [True, False])
def test_tokens_equal_those_of_the_offline_tokenizer(both, lowercase):
    offline, reader = both(SMALL, lowercase=lowercase)
    rows = tf.function(reader.tokens, autograph=False)(tf.constant(TEXTS)).to_list()
    for text, ids, expected in zip(TEXTS, rows, offline.ids_batch(TEXTS), strict=True):
        assert ids == expected, ascii(text[:60])


@pytest.mark.parametrize("name", ["klue-roberta", "koelectra", "multilingual-bert"])
def test_cased_korean_tokens_equal_those_of_the_offline_tokenizer(both, vocabulary_of, name):
    texts = [*SENTENCES, *DECOMPOSED]
    offline, reader = both(vocabulary_of(name), lowercase=False)
    rows = tf.function(reader.tokens, autograph=False)(tf.constant(texts)).to_list()
    assert rows == offline.ids_batch(texts)


@pytest.mark.parametrize(
    ("max_length", "lowercase"),
    [
        (5, False),
        (17, True),
        pytest.param(4, True, marks=pytest.mark.slow),
        pytest.param(16, False, marks=pytest.mark.slow),
    ],
)
def test_inputs_equal_those_of_pack(both, lowercase, max_length):
    offline, reader = both(SMALL, lowercase=lowercase, max_length=max_length)
    first_texts = [*TEXTS, "a", "a b c", "a b c d e f g h", "a b c d e f g h i j k l m n o p"]
    second_texts = first_texts[::-1]
    ids, pair_ids = offline.ids_batch(first_texts), offline.ids_batch(second_texts)
    call = in_graph(reader)
    for texts, text_ids in (
        ((first_texts,), (ids,)),
        ((first_texts, second_texts), (ids, pair_ids)),
        ((["a"], [""]), (offline.ids_batch(["a"]), [[]])),
        (([""],), ([[]],)),
    ):
        inputs = call(*texts)
        expected = pack(*text_ids, vocabulary=SMALL, max_length=max_length)
        assert list(inputs) == list(expected)
        for name, array in expected.items():
            assert inputs[name].dtype == tf.int32
            np.testing.assert_array_equal(inputs[name].numpy(), array, err_msg=name)


def offline_windows(*texts, max_length: int, stride: int):
    """Returns inputs [B,W,T], and which windows are not padding, [B,W]."""
    rows = np.arange(len(texts[0]))
    encoded = windows_of(
        texts,
        rows,
        max_length=max_length,
        stride=stride,
        vocabulary=SMALL,
        locations=[f"row {row}" for row in rows],
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
def test_windows_equal_those_of_training(both, max_length, stride):
    offline, reader = both(SMALL, lowercase=True, max_length=max_length)
    last_texts = [*TEXTS, *("a " * length for length in range(3 * max_length)), ""]
    first_texts = [
        "b " * max(length, 0)
        for length in (index % max_length - 3 for index in range(len(last_texts)))
    ]
    call = in_graph(partial(reader.windows, stride=stride))
    for texts in ((last_texts,), (first_texts, last_texts), ([""],), ([""], [""])):
        ids = [offline.ids_batch(text) for text in texts]
        expected, is_real = offline_windows(*ids, max_length=max_length, stride=stride)
        windows = call(*texts)
        assert windows.num_texts == len(texts[0])
        np.testing.assert_array_equal(windows.text_ids.numpy(), np.nonzero(is_real)[0])
        for name, array in expected.items():
            assert windows.inputs[name].dtype == tf.int32
            np.testing.assert_array_equal(
                windows.inputs[name].numpy(), array[is_real], err_msg=name
            )


def test_a_first_text_that_fills_the_window_is_cut_with_the_second(both):
    offline, reader = both(SMALL, lowercase=True, max_length=9)
    first_texts, second_texts = ["a " * 6, "a " * 6, "a"], ["b " * 20, "", "c " * 9]
    windows = reader.windows(tf.constant(first_texts), tf.constant(second_texts), stride=5)
    assert windows.text_ids.numpy().tolist() == [0, 1, 2, 2]
    ids = [offline.ids_batch(texts[:2]) for texts in (first_texts, second_texts)]
    expected = pack(*ids, vocabulary=SMALL, max_length=9)
    for name, array in expected.items():
        np.testing.assert_array_equal(windows.inputs[name][:2].numpy(), array, err_msg=name)


def test_different_numbers_of_texts_and_pairs_are_refused(both):
    _, reader = both(SMALL, lowercase=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        reader(tf.constant(["a", "b", "c"]), tf.constant(["d"]))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_tokens_of_real_lines_equal_those_of_the_offline_tokenizer(both, shared_data, case):
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{case}-vocab.txt")
    offline, reader = both(vocabulary, lowercase=case == "uncased")
    corpora = [shared_data / "corpus" / name for name in ("books.txt", "wiki.txt")]
    lines = [line for path in corpora for line in path.read_text("utf-8").split("\n")[::25]]
    assert tf.function(reader.tokens)(tf.constant(lines)).to_list() == offline.ids_batch(lines)
