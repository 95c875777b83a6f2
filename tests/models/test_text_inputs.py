"""A classifier takes texts: lists, arrays, pairs and data sets, with the numbers of `encode`."""

import keras
import numpy as np
import pytest

from bert_keras import BertClassifier, Preprocessor, WordPieceTokenizer, encode
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.tensorflow_or_skip import tf

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "good", "bad", "film", "of", "nothing", "."))
CONFIG = BertConfig(
    vocab_size=12, hidden_size=8, num_layers=1, num_heads=2, max_positions=16,
    hidden_dropout_rate=0.0, attention_dropout_rate=0.0, initializer_stddev=0.5,
)  # fmt: skip
TEXTS = ["a good film", "", "A bad film of nothing. A bad film of nothing.", "good"]
OTHERS = ["nothing", "a film", "bad", "of a good film"]
LABELS = [1, 0, 0, 1]


@pytest.fixture
def model():
    return new_model()


def new_model():
    keras.utils.set_random_seed(1)
    model = BertClassifier(CONFIG, num_labels=2)
    model.preprocessor = Preprocessor(WordPieceTokenizer(VOCABULARY), max_length=9)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss, metrics=["accuracy"], run_eagerly=True)
    return model


def encoded(*columns):
    return encode(WordPieceTokenizer(VOCABULARY), *columns, max_length=9)


def data_set(columns, *labels):
    return tf.data.Dataset.from_tensor_slices((columns, *labels) if labels else columns).batch(3)


@pytest.mark.parametrize(
    "texts",
    [TEXTS, np.array(TEXTS), np.array(TEXTS, object), tf.constant(TEXTS), data_set(TEXTS)],
)  # fmt: skip
def test_texts_give_the_outputs_of_encode(model, texts):
    expected = model(encoded(TEXTS))
    np.testing.assert_allclose(model.predict(texts, verbose=0), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "pairs", [(TEXTS, OTHERS), (np.array(TEXTS), OTHERS), data_set(((TEXTS, OTHERS),))]
)
def test_tuples_are_pairs_of_texts(model, pairs):
    expected = model(encoded(TEXTS, OTHERS))
    np.testing.assert_allclose(model.predict(pairs, verbose=0), expected, rtol=1e-6, atol=1e-6)


def test_single_batches_and_calls_take_texts(model):
    other, arrays, labels = new_model(), encoded(TEXTS), np.array(LABELS)
    assert model.train_on_batch(TEXTS, LABELS) == other.train_on_batch(arrays, labels)
    assert model.test_on_batch(TEXTS, LABELS) == other.test_on_batch(arrays, labels)
    np.testing.assert_array_equal(model.predict_on_batch(TEXTS), other(arrays))
    np.testing.assert_array_equal(model(TEXTS), other(arrays))
    weights, validation = np.array([1, 2, 1, 1]), [TEXTS, LABELS]
    options = {"shuffle": False, "verbose": 0, "epochs": 2}
    ours = model.fit(
        TEXTS, LABELS, sample_weight=[1, 2, 1, 1], validation_data=validation, **options
    )
    validation = arrays, labels
    theirs = other.fit(arrays, labels, sample_weight=weights, validation_data=validation, **options)
    assert ours.history == theirs.history
    np.testing.assert_array_equal(model(TEXTS), other(arrays))


@pytest.mark.slow
def test_fit_and_evaluate_on_texts_equal_those_on_arrays(model):
    other, arrays, labels = new_model(), encoded(TEXTS), np.array(LABELS)
    expected = other.evaluate(arrays, labels, 4, 0)
    assert model.evaluate(TEXTS, LABELS, 4, 0) == expected
    batches = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS, np.ones(4))).batch(4)
    np.testing.assert_allclose(model.evaluate(batches, verbose=0), expected, rtol=1e-6)
    model.fit(batches, validation_data=batches, verbose=0)
    other.fit(arrays, labels, batch_size=4, shuffle=False, verbose=0)
    np.testing.assert_allclose(model(arrays), other(arrays), rtol=1e-5)


def test_the_preprocessor_is_saved_with_the_model(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    loaded = BertClassifier.from_pretrained(tmp_path / "model")
    assert loaded.preprocessor.max_length == 9
    assert loaded.preprocessor.tokenizer.vocabulary == VOCABULARY
    expected = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), expected, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").preprocessor is None


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a film", "expected a list of strings"),
        ([], "an empty list"),
        (["a film", None], "text 1 is None; expected a string"),
        (np.array([["a", "film"]]), "text 0 is ['a', 'film']"),
        ((TEXTS, OTHERS[1:]), "4 first and 3 second texts"),
        (tf.data.Dataset.from_tensor_slices(TEXTS), "dataset.batch(32)"),
        (data_set(TEXTS, OTHERS), "yields two texts and no label"),
    ],
)
def test_wrong_texts_are_refused(model, texts, message):
    with pytest.raises(InputError) as error:
        model.predict(texts, verbose=0)
    assert message in str(error.value)


def test_labels_that_are_texts_are_refused(model):
    with pytest.raises(InputError, match="labels are texts"):
        model.fit(TEXTS, ["no", "yes", "no", "yes"])


def test_a_model_without_tokenizer_says_why():
    model = BertClassifier(CONFIG, num_labels=2)
    assert model.preprocessor is None
    with pytest.raises(InputError, match="no tokenizer"):
        model.predict(TEXTS)
