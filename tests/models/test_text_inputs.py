"""A classifier takes texts: lists, arrays, pairs and data sets, with the numbers of `encode`."""

import dataclasses
import inspect
from collections import UserList, deque
from functools import partial
from types import SimpleNamespace

import keras
import numpy as np
import pyarrow
import pytest

from bert_keras import (
    BertClassifier,
    BertMultipleChoice,
    BertQuestionAnswering,
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


def uncompiled(names=NAMES, kind=BertClassifier, **metadata):
    keras.utils.set_random_seed(1)
    model = kind(CONFIG, **{"num_labels": len(names)} if names else {})
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
    for texts in (TEXTS, np.array(TEXTS), tf.constant(TEXTS)):
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
    loaded.build((None, 128))  # does nothing
    for again in (loaded, keras.models.load_model(tmp_path / "model.keras")):
        for ours, theirs in zip(again.predict(TEXTS), model.predict(TEXTS), strict=True):
            assert ours == {**theirs, "probabilities": pytest.approx(theirs["probabilities"])}


def names_of(labels):
    return [NAMES[each] for each in labels]


def fitted(labels, x=(TEXTS * 4), model=None, **options):
    model = model or uncompiled()
    options = {"batch_size": 4, "epochs": 2, "verbose": 0, **options}
    return model, model.fit(x, labels, **options).history


def test_fit_needs_no_compile_and_takes_names_of_labels(capsys, eagerly):
    options = {"batch_size": 2, "validation_split": 0.25, "verbose": 2}
    model, history = fitted(names_of(LABELS * 4), **options)
    output = capsys.readouterr()
    assert "rising to 0.0001 over 1 step, then falling to 0 at step 12" in output.out
    assert output.err.count("4 of 16 texts have more than 9 tokens") == 1
    assert {*history} == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert model.optimizer.iterations == 12 and model.optimizer.learning_rate == 0
    options = {"batch_size": 16}
    assert fitted(names_of(LABELS * 4), **options)[1] == fitted(np.array(LABELS * 4), **options)[1]
    fitted(np.array(names_of(LABELS * 4)), model=model, class_weight={"poor": 2.0}, **options)
    assert model.optimizer.iterations == 2  # of a new schedule
    model.fit(data_set(TEXTS, LABELS), epochs=2, verbose=0)
    assert model.optimizer.iterations == 4
    model.fit(TEXTS, LABELS, learning_rate=1e-5, verbose=2)
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


CONTAINERS = {
    **{"tuple": tuple, "deque": deque, "column of datasets": UserList, "unicode": np.array},
    **{"objects": partial(np.array, dtype=object), "bytes": partial(np.array, dtype="S")},
    **{"pyarrow": pyarrow.array, "chunked": lambda values: pyarrow.chunked_array([values])},
    **{"StringDType": partial(np.array, dtype=np.dtypes.StringDType()), "tensor": tf.constant},
    **{name: lambda values, dtype=name: pytest.importorskip("pandas").Series(values, dtype=dtype)
       for name in ("object", "category", "string", "string[pyarrow]")},
}  # fmt: skip
METHODS = (
    lambda model, x, y: model.predict(x, verbose=0),
    lambda model, x, y: model.predict((x, x), verbose=0),
    lambda model, x, y: model.preprocessor(x),
    lambda model, x, y: model.tokenizer(x, x),
    lambda model, x, y: model.tokenizer.ids_batch(x),
    lambda model, x, y: model.evaluate(x, y, verbose=0),
    lambda model, x, y: model.test_on_batch(x, y),
    lambda model, x, y: model.fit(x, y, validation_data=(x, y), epochs=0).history,
)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_of_texts_and_labels_is_as_a_list(model, container):
    texts, labels = container(TEXTS), container(names_of(LABELS))
    for method in METHODS:
        pairs = (method(model, texts, labels), method(model, TEXTS, LABELS))
        for actual, expected in zip(*map(keras.tree.flatten, pairs), strict=True):
            is_text = isinstance(expected, str)
            check = np.testing.assert_equal if is_text else np.testing.assert_allclose
            check(actual, expected, **{} if is_text else {"rtol": 1e-6})


def test_columns_of_words_are_as_lists():
    model, words = uncompiled(("O", "NOUN"), BertTokenClassifier), [[], ["a", "film"], ["good"]]
    for column in (deque(words), np.array(words, object), pyarrow.array(words)):
        assert model.predict(column, verbose=0) == model.predict(words, verbose=0)
    assert model.predict([[], []], verbose=0)[1]["entities"] == []


class Batches(keras.utils.PyDataset):
    def __init__(self, *batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def generated(*batch):
    yield batch


ROWS, ONE_HOT = encoded(TEXTS), np.eye(2, dtype="float32")[LABELS]
CHOICES = {name: np.stack([array, array], 1) for name, array in ROWS.items()}
NUMBER, NUMERALS = partial(uncompiled, ("stars",)), partial(uncompiled, ("1", "2", "3"))
TAGGER = partial(uncompiled, ("O", "B-X"), BertTokenClassifier)
CHOICE = partial(uncompiled, (), BertMultipleChoice)
SPAN = partial(uncompiled, (), BertQuestionAnswering, task={"max_question_length": 2})
REFUSED = [
    *((uncompiled, (x, y), {}) for x in (TEXTS, ROWS) for y in (
        ONE_HOT, [[0, 1, 0]] * 4, [1, 2, 1, 2], [-1, 1, 1, 1], [1, np.nan, 1, 1], LABELS[:3],
        ["good"] * 4, ["fine", 1, 1, 1], ["fine", None, "fine", "poor"],
        [["fine"], None, [], []], [["fine"]] * 3 + [["good"]], np.array([["good"]] * 4))),
    *((NUMBER, (x, y), {}) for x in (TEXTS, ROWS) for y in ([1.5, np.inf, 2, 1], [None] * 4)),
    *((NUMERALS, (x, [1, 2, 1, 2]), {}) for x in (TEXTS, ROWS)),
    (uncompiled, (data_set(ROWS, LABELS),), {"validation_split": 0.5}),
    (partial(uncompiled, ("a", "c,d")), (TEXTS, [["a"]] * 4), {}), (SPAN, (TEXTS, LABELS), {}),
    *((TAGGER, data, {}) for data in (
        (ROWS, np.full((4, 9), -100)), ((TEXTS, TEXTS), LABELS), ([["a", None]], [["O", "O"]]))),
    *((CHOICE, (x, ONE_HOT), {}) for x in ((TEXTS, TEXTS, TEXTS), CHOICES)),
    *((SPAN, ((TEXTS, TEXTS), [y] * 4), {}) for y in (
        (14, 20), [14, 20], {"answer_start": "14", "text": "good"}, (2.0, "good"), "good")),
    *((uncompiled, (x,), {}) for x in (
        tf.data.Dataset.from_tensor_slices(TEXTS), data_set(TEXTS, OTHERS),
        TEXTS, [("a film", "fine")], [(TEXTS, LABELS)], Batches(TEXTS, LABELS),
        generated(TEXTS, LABELS), Batches(ROWS, names_of(LABELS)), generated(ROWS, ONE_HOT),
        data_set(TEXTS, ONE_HOT), data_set(ROWS, ONE_HOT), data_set(TEXTS, LABELS).repeat(),
        data_set(TEXTS, LABELS).filter(lambda *_: True))),
    *((uncompiled, (x, LABELS), {}) for x in (
        "a film", [], None, np.ones((4, 8)), ["a film", None] * 2, np.array([["a", "film"]] * 4),
        SimpleNamespace(columns=["text"]), (TEXTS, OTHERS[1:]), (TEXTS, TEXTS, TEXTS),
        data_set(ROWS, LABELS), np.arange(4), keras.Input((), dtype="string"),
        ROWS | {"segment_ids": ROWS["segment_ids"] + 7},
        {name: array[:, :0] for name, array in ROWS.items()})),
    *((uncompiled, (x, LABELS), {name: value}) for x in (TEXTS, ROWS) for name, value in (
        ("sample_weight", [1, np.nan, 1, 1]), ("sample_weight", [-1, 1, 1, 1]),
        ("class_weight", {"fine": np.inf}), ("class_weight", np.ones(3)),
        ("class_weight", {"pour": 2.0}), ("class_weight", "balanced"), ("epochs", "2"),
        ("epochs", -1), ("batch_size", 0), ("validation_split", "a"), ("validation_split", 2),
        ("learning_rate", -1), ("callbacks", "early"),
        ("callbacks", keras.callbacks.ReduceLROnPlateau()),
        *(("validation_data", each) for each in (
            (TEXTS, ["good"] * 4), (TEXTS,), (TEXTS, [["fine"]] * 4), "dev.tsv", TEXTS, (),
            [*zip(TEXTS, LABELS, strict=True)])))),
    (uncompiled, (TEXTS, [["fine"]] * 4), {"class_weight": {"poor": 2.0}}),
]  # fmt: skip


@pytest.mark.parametrize(("new", "data", "options"), REFUSED)
def test_a_refused_call_changes_nothing(new, data, options):
    model = new()
    before = model.metadata, model.labels, model.compiled, model.get_weights()
    with pytest.raises(ValueError):
        model.fit(*data, **options, verbose=0)
    with pytest.raises(InputError):  # lists are for several labels, and pairs are one tuple
        model.evaluate(TEXTS, [["fine"]] * 4) if new is uncompiled else model(TEXTS, OTHERS)
    after = model.metadata, model.labels, model.compiled, model.get_weights()
    np.testing.assert_equal(before, after)


@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        *((TEXTS, y, {}) for y in (np.array([names_of(LABELS)]).T, np.array([LABELS]).T)),
        *((ROWS, y, {}) for y in (names_of(LABELS), LABELS, np.array(LABELS, "uint8"))),
        ({name: array.astype("uint16") for name, array in ROWS.items()}, np.array(LABELS), {}),
        *(
            (x, LABELS, {"class_weight": np.ones(2), "sample_weight": [1] * 4})
            for x in (TEXTS, ROWS)
        ),
        (generated(ROWS, np.array(LABELS)), None, {"steps_per_epoch": 1}),
    ],
)
def test_data_with_one_meaning_train_as_texts_and_ids(x, y, options, eagerly):
    expected, found = (uncompiled() for _ in range(2))
    expected.fit(TEXTS, LABELS, shuffle=False, verbose=0)
    found.fit(x, y, shuffle=False, verbose=0, **options)
    for ours, theirs in zip(found.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_numerals_are_names_and_numbers_are_ids_from_zero(eagerly):
    scores = [NUMERALS().evaluate(TEXTS, y) for y in (["1", "2", "3", "1"], [0, 1, 2, 0])]
    assert scores[0] == scores[1]
