"""A classifier takes texts: lists, arrays, pairs and data sets, with the numbers of `encode`."""

import dataclasses
import inspect
from collections import UserList
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from bert_keras import (
    BertClassifier,
    BertTokenClassifier,
    Preprocessor,
    WordPieceTokenizer,
    encode,
)
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.kinds.kind import softmax
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
NAMES = ("poor", "fine")


@pytest.fixture(scope="module")
def model():
    return new_model()


@pytest.fixture
def eagerly():
    """Runs the steps of `fit` without tracing them, which takes most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


class Series(UserList):
    """A column as in pandas, of any objects."""

    dtype = np.dtype(object)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data, object)


def uncompiled(names=NAMES, kind=BertClassifier, **metadata):
    keras.utils.set_random_seed(1)
    model = kind(CONFIG, num_labels=len(names))
    model.metadata = dataclasses.replace(model.new_metadata(), labels=names, **metadata)
    model.preprocessor = Preprocessor(WordPieceTokenizer(VOCABULARY), max_length=9)
    return model


def new_model():
    model = uncompiled()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss, metrics=["accuracy"], run_eagerly=True)
    return model


def encoded(*columns):
    return encode(WordPieceTokenizer(VOCABULARY), *columns, max_length=9)


def data_set(columns, *labels):
    return tf.data.Dataset.from_tensor_slices((columns, *labels) if labels else columns).batch(3)


def test_predictions_for_texts_are_those_for_the_arrays_of_encode(model):
    logits = model.predict(encoded(TEXTS), verbose=0)
    for inputs in (model.preprocessor(TEXTS), data_set(TEXTS)):
        np.testing.assert_allclose(model.predict(inputs, verbose=0), logits, rtol=1e-5, atol=1e-6)
    for texts in (TEXTS, np.array(TEXTS), Series(TEXTS), tf.constant(TEXTS)):
        answers = model.predict(texts, batch_size=2, verbose=0)
        assert [each["label"] for each in answers] == [NAMES[row.argmax()] for row in logits]
        assert answers[0]["labels"] == [*NAMES]
        found = [each["probabilities"] for each in answers]
        np.testing.assert_allclose(found, softmax(logits), rtol=1e-6)
        first = model.predict(texts, batch_size=2, steps=1, verbose=0)
        assert [each["label"] for each in first] == [each["label"] for each in answers[:2]]


@pytest.mark.parametrize("pairs", [(TEXTS, OTHERS), (np.array(TEXTS), OTHERS)])
def test_tuples_are_pairs_of_texts(model, pairs):
    expected = softmax(np.asarray(model(encoded(TEXTS, OTHERS))))
    found = [each["probabilities"] for each in model.predict(pairs, verbose=0)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    logits = model.predict(data_set(((TEXTS, OTHERS),)), verbose=0)
    np.testing.assert_allclose(softmax(logits), expected, rtol=1e-5)


def test_single_batches_and_calls_take_texts():
    (model, other), arrays, labels = (new_model(), new_model()), encoded(TEXTS), np.array(LABELS)
    assert model.train_on_batch(TEXTS, LABELS) == other.train_on_batch(arrays, labels)
    assert model.test_on_batch(TEXTS, LABELS) == other.test_on_batch(arrays, labels)
    batches = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS, np.ones(4))).batch(4)
    for each in (model.evaluate(TEXTS, LABELS, 4, 0), model.evaluate(batches, verbose=0)):
        np.testing.assert_allclose(each, other.evaluate(arrays, labels, 4, 0), rtol=1e-6)
    np.testing.assert_array_equal(model.predict_on_batch(TEXTS), other(arrays))
    np.testing.assert_array_equal(model(TEXTS), other(arrays))
    weights, options = [1, 2, 1, 1], {"shuffle": False, "verbose": 0}
    held_out = [TEXTS, LABELS]
    ours = model.fit(TEXTS, LABELS, sample_weight=weights, validation_data=held_out, **options)
    weights, held_out = np.array(weights), (arrays, labels)
    theirs = other.fit(arrays, labels, sample_weight=weights, validation_data=held_out, **options)
    assert ours.history == theirs.history
    np.testing.assert_array_equal(model(TEXTS), other(arrays))


def test_words_have_tags(eagerly):
    model = uncompiled(("O", "B-X"), BertTokenClassifier)
    words, tags = [["a", "good."], ["film"]] * 8, [["O", "B-X"], ["O"]] * 8
    assert "val_accuracy" in model.fit(words, tags, validation_split=0.25, verbose=0).history
    answers = model.predict([["a", "film"], []], verbose=0)
    assert answers == model.predict(["a film", ""], verbose=0)
    for data, options in (
        ((words, [*tags[:9], ["X"], *tags[10:]]), {}),
        ((["a film"], [["O"]]), {}),
        ((words, tags), {"class_weight": {"O": 2.0}}),
    ):
        with pytest.raises(InputError):
            model.fit(*data, **options)


@pytest.mark.parametrize("name", ["fit", "evaluate", "predict", "train_on_batch", "test_on_batch"])
def test_methods_have_the_arguments_of_keras(name):
    ours, theirs = (
        [(each.name, each.default) for each in inspect.signature(method).parameters.values()]
        for method in (getattr(BertClassifier, name), getattr(keras.Model, name))
    )
    assert ours == theirs + [("learning_rate", None)] * (name == "fit")


def test_the_preprocessor_is_saved_with_the_model(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    loaded = BertClassifier.from_pretrained(tmp_path / "model")
    assert loaded.preprocessor.max_length == 9
    assert loaded.preprocessor.tokenizer.vocabulary == VOCABULARY
    model.save(tmp_path / "model.keras")
    for again in (loaded, keras.models.load_model(tmp_path / "model.keras")):
        for ours, theirs in zip(again.predict(TEXTS), model.predict(TEXTS), strict=True):
            assert ours == {**theirs, "probabilities": pytest.approx(theirs["probabilities"])}


@pytest.mark.parametrize(
    "texts",
    [
        *("a film", [], None, np.ones((4, 8)), ["a film", None], np.array([["a", "film"]])),
        *(SimpleNamespace(columns=["text"]), (TEXTS, OTHERS[1:]), (TEXTS, TEXTS, TEXTS)),
        *(tf.data.Dataset.from_tensor_slices(TEXTS), data_set(TEXTS, OTHERS)),
    ],
)
def test_wrong_texts_are_refused(model, texts):
    with pytest.raises(InputError):
        model.predict(texts, verbose=0)


@pytest.mark.parametrize(
    "labels",
    [
        *(["fine", "poor", "good", "fine"], ["fine", 1, 1, 1], [1, 2, 1, 2], [-1, 1, -1, 1]),
        *(LABELS[:3], [None, *LABELS[1:]], None),
    ],
)
def test_wrong_labels_are_refused(model, labels):
    with pytest.raises(InputError):
        model.fit(TEXTS, labels)


def test_a_refused_call_changes_nothing():
    model = uncompiled()
    before = model.labels, model.metadata, model.compiled, model.predict(TEXTS, verbose=0)
    for data in ((["good"] * 4,), (names_of(LABELS[:3]),), ([["fine"]] * 3 + [["good"]],)):
        for call in (model.fit, model.evaluate):
            with pytest.raises(InputError):
                call(TEXTS, *data, verbose=0)
    with pytest.raises(InputError):  # lists are for several labels
        model.evaluate(TEXTS, [["fine"]] * 4, verbose=0)
    pairs = [*zip(TEXTS, LABELS, strict=True)]
    wrong = (TEXTS, ["good"] * 4), (TEXTS,), (TEXTS, [["fine"]] * 4), "dev.tsv", pairs, TEXTS, ()
    wrong = *({"validation_data": each} for each in wrong), {"class_weight": "balanced"}
    for options in wrong:
        with pytest.raises(ValueError):
            model.fit(TEXTS, LABELS, **options, verbose=0)
    after = model.labels, model.metadata, model.compiled, model.predict(TEXTS, verbose=0)
    assert before == after and not model.compiled


def test_arguments_of_fit_that_do_not_fit_are_refused():
    model = uncompiled()
    with pytest.raises(InputError):
        model(TEXTS, OTHERS)
    wrong = ("epochs", "2"), ("epochs", -1), ("batch_size", 0), ("callbacks", "early")
    wrong += ("validation_split", "a"), ("validation_split", 2), ("learning_rate", -1)
    for data, options in (
        ((TEXTS, LABELS), {"class_weight": {"pour": 2.0}}),
        ((TEXTS, [["fine"]] * 4), {"class_weight": {"poor": 2.0}}),
        (([("a film", "fine")],), {}),
        *(((TEXTS, LABELS), {name: value}) for name, value in wrong),
    ):
        with pytest.raises(InputError):
            model.fit(*data, **options)


def names_of(labels):
    return [NAMES[each] for each in labels]


def fitted(labels, x=(TEXTS * 4), model=None, **options):
    model = model or uncompiled()
    options = {"batch_size": 4, "epochs": 2, "verbose": 0, **options}
    return model, model.fit(x, labels, **options).history


def test_fit_needs_no_compile_and_takes_names_of_labels(capsys, eagerly):
    options = {"batch_size": 2, "validation_split": 0.25}
    model, history = fitted(names_of(LABELS * 4), **options)
    output = capsys.readouterr()
    assert "rising to 0.0001 over 1 step, then falling to 0 at step 12" in output.out
    assert output.err.count("4 of 16 texts have more than 9 tokens") == 1
    assert {*history} == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert model.optimizer.iterations == 12 and model.optimizer.learning_rate == 0
    options = {"batch_size": 16}
    assert fitted(names_of(LABELS * 4), **options)[1] == fitted(np.array(LABELS * 4), **options)[1]
    fitted(Series(names_of(LABELS * 4)), model=model, class_weight={"poor": 2.0}, **options)
    assert model.optimizer.iterations == 2  # of a new schedule
    model.fit(data_set(TEXTS, LABELS), epochs=2, verbose=0)
    assert model.optimizer.iterations == 4
    model.fit(TEXTS, LABELS, learning_rate=1e-5, verbose=0)
    assert "learning rate 1e-05, falling" in capsys.readouterr().out
    with pytest.raises(InputError):
        model.predict(TEXTS, batchsize=8)
    with pytest.raises(InputError):  # the loss is not the user's
        model.fit(TEXTS, [0.5, 1.0, 0.0, 1.0])


def test_the_validation_split_has_its_share_of_each_label(eagerly):
    class Watched(BertClassifier):
        def compute_loss(self, x=None, y=None, *others, training=True):
            if hasattr(y, "numpy"):
                seen[training] = sorted(y.numpy())
            return super().compute_loss(x, y, *others, training=training)

    for labels in ([1, 0] * 8, [0] * 8 + [1] * 8):
        seen, model = {}, uncompiled(kind=Watched)
        fitted(labels, model=model, epochs=1, validation_split=0.25, batch_size=16)
        assert seen == {True: [0] * 6 + [1] * 6, False: [0, 0, 1, 1]}
    with pytest.raises(InputError):
        fitted(LABELS, TEXTS, validation_split=0.99)


def test_a_compiled_model_is_used_as_it_is(eagerly):
    model = uncompiled()
    with pytest.warns(UserWarning, match="sparse_categorical_crossentropy expects probabilities"):
        model.compile("sgd", "sparse_categorical_crossentropy")
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(TEXTS, LABELS, verbose=0)
    assert model.optimizer.name.lower().startswith("sgd")
    for loss in ("mse", keras.losses.CategoricalCrossentropy(from_logits=True)):
        model.compile("sgd", loss)
        with pytest.raises(InputError):
            model.fit(TEXTS, names_of(LABELS))


def test_lists_of_names_and_numbers_are_learned(eagerly):
    many = [["fine"], [], ["poor", "fine"], ["poor"]] * 4
    model, history = fitted(many, epochs=1, batch_size=16)
    assert "binary_accuracy" in history
    (answer,) = model.predict(["good"], verbose=0)
    likely = [name for name, p in zip(NAMES, answer["probabilities"], strict=True) if p >= 0.5]
    assert answer["label"] == ",".join(likely)
    model = uncompiled(("stars",))
    assert "mae" in model.fit(TEXTS, [0.5, 2.0, 1.0, 3.5], verbose=0).history
    logits = model(["good", "bad film"])
    answers = model.predict(["good", "bad film"], verbose=0)
    np.testing.assert_allclose([each["score"] for each in answers], logits[:, 0], rtol=1e-5)


def test_rows_of_similar_length_share_a_batch():
    shapes = []

    class Watched(BertClassifier):
        def call(self, inputs, training=False):
            shapes.append(tuple(inputs["input_ids"].shape))
            return super().call(inputs, training=training)

    model = Watched(CONFIG, num_labels=2)
    model.preprocessor = Preprocessor(WordPieceTokenizer(VOCABULARY), max_length=9)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    texts = ["a good film of nothing .", "good"] * 4
    model.fit(texts, [0, 1] * 4, batch_size=4, verbose=0)
    assert {*shapes} - {(2, 2)} == {(4, 3), (4, 8)}  # Keras builds with two rows


def test_models_of_pairs_and_without_tokenizer_refuse_texts(eagerly):
    model = uncompiled(text_columns=("one", "two"))
    with pytest.raises(InputError):
        model.predict(TEXTS)
    assert len(fitted(LABELS, TEXTS, model)[0].predict(TEXTS, verbose=0)) == len(TEXTS)
    model = BertClassifier(CONFIG, num_labels=2)
    assert model.preprocessor is None
    with pytest.raises(InputError):
        model.predict(TEXTS)
