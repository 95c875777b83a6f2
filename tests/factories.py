"""What many tests need: a tiny configuration, vocabulary, corpus, records and model."""

import contextlib
import itertools
import os
import signal
import string
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "a", "good", "bad", "film", "river", "bank", "was", "is", "un", "##s", "##ing", ".")
LINES = ("the river was good .", "a bad film is a bad film .", "the bank was the good bank .")


def tiny_config(**changes) -> BertConfig:
    """Returns a configuration of two layers of 16 with two heads."""
    sizes = {"vocab_size": len(tiny_vocabulary()), "max_positions": 64, "intermediate_size": 32}
    return BertConfig(**{"hidden_size": 16, "num_layers": 2, "num_heads": 2, **sizes, **changes})


def tiny_vocabulary() -> Vocabulary:
    """Returns an uncased WordPiece vocabulary of `WORDS`."""
    return Vocabulary((*SPECIAL_TOKENS, *WORDS))


def write_corpus(path: Path, *, documents: int = 20) -> Path:
    """Writes a corpus with a sentence on each line and a blank line between documents."""
    texts = ["\n".join(LINES[n % 3 :] + LINES[: n % 3]) for n in range(documents)]
    path.write_text("\n\n".join(texts) + "\n", "utf-8")
    return path


def write_records(folder: Path, *, max_length: int = 32, **settings) -> Path:
    """Writes record files of the corpus with their vocabulary; returns their folder."""
    from tfrecords_tools.build import build
    from tfrecords_tools.settings import BuildSettings

    folder.mkdir(parents=True, exist_ok=True)
    build(
        [write_corpus(folder / "corpus.txt")],
        vocabulary=tiny_vocabulary(),
        output=folder / "records",
        settings=BuildSettings(max_length=max_length, **settings),
    )
    return folder / "records"


def wait_for(happened, *, seconds: float = 30) -> None:
    """Waits until a function returns something true."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@contextlib.contextmanager
def stopped_by_sigterm(*, steps_left: int):
    """Stops a run of the `with` block when so many of its steps are left."""
    from bert_keras.training.loop import StopAfter

    def ends(callback, batch, logs=None, end=StopAfter.on_train_batch_end):
        end(callback, batch, logs)
        if callback.steps_left == steps_left:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as error:
        patch.setattr(StopAfter, "on_train_batch_end", ends)
        yield
    assert error.value.code == 143


def batches_of(arrays: Any, *, size: int, is_endless: bool = False):
    """Returns `Batches` of the rows of a structure of arrays; the last batch may be smaller."""
    import keras

    from bert_keras.data.batches import Batches

    number = -(-len(keras.tree.flatten(arrays)[0]) // size)

    def read(first: int):
        for index in itertools.count(first) if is_endless else range(first, number):
            rows = slice(index % number * size, (index % number + 1) * size)
            yield keras.tree.map_structure(lambda array, rows=rows: array[rows], arrays)

    spec = keras.tree.map_structure(
        lambda array: keras.KerasTensor((None, *array.shape[1:]), array.dtype.name), arrays
    )
    return Batches(read, spec=spec, num_batches=None if is_endless else number)


TASKS = {
    "BertFeatureTagger": {"name": "ner-features", "layers": "weighted-sum-all", "lstm_units": 3},
    "BertReplacedTokenPretrainer": {"generator_size": 0.5},
}


def random_metadata(model: str, *, config: dict | None = None, **fields: Any) -> ModelMetadata:
    """Returns the metadata of a tiny model; `config` are changes of its configuration."""
    from bert_keras.models.loading import MODELS

    cls = MODELS[model]
    values = {
        "lowercase": True,
        "max_length": 12,
        "text_columns": ("question", "answer") if model == "BertClassifier" else (),
        "labels": ("no", "yes", "perhaps") if cls.kind.is_labelled else (),
        "problem_type": "single_label_classification" if model == "BertClassifier" else "",
        "task": TASKS.get(model, {}),
    }
    return ModelMetadata(model=model, config=tiny_config(**(config or {})), **{**values, **fields})


def weight_shapes(metadata: ModelMetadata) -> dict[str, tuple[int, ...]]:
    """Returns the names and shapes of the weights of a model, which are never allocated."""
    import keras

    from bert_keras.checkpoints.tensors import named_weights
    from bert_keras.models.loading import MODELS

    with keras.StatelessScope(initialize_variables=False):
        model = MODELS[metadata.model].from_metadata(metadata)
        if not model.built:
            model.build()
        shapes = {name: tuple(weight.shape) for name, weight in named_weights(model).items()}
    # Keras would give them values at the end of the next scope.
    keras.src.backend.common.global_state.set_global_attribute("uninitialized_variables", [])
    return shapes


def random_model(model: str, *, seed: int = 0, **fields: Any):
    """Returns a tiny model with normally distributed weights and its metadata."""
    from bert_keras.models.loading import MODELS

    metadata, random = random_metadata(model, **fields), np.random.default_rng(seed)
    built = MODELS[model].from_metadata(metadata)
    if not built.built:
        built.build()
    for weight in built.weights:
        weight.assign(random.normal(size=weight.shape) * 0.5)
    built.metadata = metadata
    return built


def random_checkpoint(
    model: str, *, seed: int = 0, vocabulary: Vocabulary | None = None, **fields: Any
):
    """Returns the checkpoint of a `random_model` with `tiny_vocabulary` or another one."""
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.checkpoints.tensors import StoredTensor, named_weights

    vocabulary = vocabulary or tiny_vocabulary()
    config = {"vocab_size": len(vocabulary), **fields.pop("config", {})}
    built = random_model(model, seed=seed, config=config, **fields)
    arrays = {name: np.array(weight) for name, weight in named_weights(built).items()}
    tensors = {name: StoredTensor(a.shape, lambda a=a: a) for name, a in arrays.items()}
    return Checkpoint(metadata=built.metadata, tensors=tensors, vocabulary=vocabulary)


def arrays_of(tensors) -> dict[str, np.ndarray]:
    """Returns the arrays of stored tensors, or of other arrays, by name."""
    return {name: np.asarray(getattr(t, "read", lambda t=t: t)()) for name, t in tensors.items()}


def assert_same_tensors(actual, expected) -> None:
    """Checks that two collections have the same names and arrays, bit for bit."""
    assert {*actual} == {*expected}
    for name, array in arrays_of(expected).items():
        np.testing.assert_array_equal(arrays_of({name: actual[name]})[name], array, name)


def with_noise(model, *, seed: int = 7, stddev: float = 0.3):
    """Builds a model and adds noise to its weights, because initial ones give equal outputs."""
    import keras

    if not model.built:
        model.build()
    keras.utils.set_random_seed(seed)
    add_noise(model, stddev=stddev)
    return model


def add_noise(model, *, stddev: float):
    """Adds noise, which the last `set_random_seed` determines, to the weights of a built model."""
    import keras

    for weight in model.weights:
        weight.assign(weight + keras.random.normal(weight.shape, stddev=stddev))


def value_and_gradient(function, x):
    """Returns the NumPy arrays of function(x) and of the gradient of its sum, on every backend."""
    import keras

    x = keras.ops.convert_to_tensor(x)
    if keras.config.backend() == "jax":
        import jax

        y, pullback = jax.vjp(function, x)
        (gradient,) = pullback(keras.ops.ones_like(y))
    else:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        gradient = tape.gradient(y, x)
    return np.asarray(y), np.asarray(gradient)


def assert_served(served: dict, answers: list[dict]) -> None:
    """Checks that a SavedModel gives the answers of `predict`; lists of both end in padding."""
    assert {*served} == {*answers[0]}
    for row, answer in enumerate(answers):
        for name, expected in answer.items():
            found = served[name][row]
            found = found[: len(expected)] if isinstance(expected, list) else found
            assert found == pytest.approx(expected, abs=1e-5), (row, name)


def letter_vocabulary(*more: str, letters: str = "") -> Vocabulary:
    """Returns a WordPiece vocabulary of ASCII characters, `letters` and the tokens `more`."""
    letters = string.ascii_letters + string.digits + letters
    continuing = (f"##{letter}" for letter in letters)
    return Vocabulary((*SPECIAL_TOKENS, *letters, *continuing, *string.punctuation, *more))
