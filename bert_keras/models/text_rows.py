"""Turns texts and labels into rows and batches for Keras."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from bert_keras.data.batches import Batches, batches_of
from bert_keras.data.encoded import Encoded, length_grouped_batches, longest_first_batches
from bert_keras.errors import InputError, quoted
from bert_keras.kinds.kind import Kind
from bert_keras.kinds.words import TaggedWords
from bert_keras.text.columns import columns_of


def encode_rows(
    model: keras.Model, kind: Kind, x: Any, y: Any = None, weights: Any = None
) -> Encoded:
    """Encodes texts as rows with their targets and weights.

    Args:
        model: The model, whose loss must fit the targets.
        x: N texts, or a tuple of columns of N texts.
        y: The labels of the texts, or None if the loss reads no labels.
        weights: The weights of the texts in the loss.
    """
    columns, labels, weights = some_columns(x), as_list(y), as_list(weights)
    num_texts = len(columns[0])
    for name, each in (("y", labels), ("sample_weight", weights)):
        if each is not None and len(each) != num_texts:
            raise InputError(f"{name} is of length {len(each):,}, the texts of {num_texts:,}")
    if labels is None and kind.needs_labels and not (model.compiled and not model.loss):
        text = quoted(columns[0][0])
        raise InputError(f"y is None for texts such as {text}; expected labels: (texts, labels)")
    rows: Any = kind.encoded(columns, labels)
    if labels is not None:
        targets = rows.label_ids if isinstance(rows, TaggedWords) else rows.targets
        check_loss(model, kind, keras.tree.flatten(targets)[0])
    if weights is None:
        return rows
    targets = np.zeros(num_texts) if rows.targets is None else rows.targets
    return dataclasses.replace(rows, targets=targets, weights=np.asarray(weights, np.float32))


def some_columns(x: Any) -> tuple[list, ...]:
    """Returns the columns of texts; raises InputError if they are empty."""
    columns = columns_of(x)
    if not columns[0]:
        raise InputError("the texts are an empty list; expected at least one")
    return columns


def check_loss(model: keras.Model, kind: Kind, targets: np.ndarray) -> None:
    """Raises InputError if a loss of Keras does not fit the targets of the labels."""
    sparse = keras.losses.SparseCategoricalCrossentropy
    losses = keras.tree.flatten(model.loss) if model.compiled else []
    if not kind.needs_labels or (model.compiled and not losses):
        return  # the loss is the user's
    expected = keras.tree.flatten(kind.compile_arguments()["loss"])[0]
    are_ids = isinstance(expected, sparse) and targets.ndim == 1
    are_whole = not are_ids or (targets == np.round(targets)).all()
    for loss in map(keras.losses.get, losses or [expected]):
        is_sparse = isinstance(loss, sparse) or loss is keras.losses.sparse_categorical_crossentropy
        is_own = not loss.__module__.startswith("keras.")
        if not is_own and (is_sparse != are_ids or not are_whole):
            name = getattr(loss, "name", None) or getattr(loss, "__name__", loss)
            raise InputError(
                f"the loss {name} does not fit labels such as {targets[0]}; without compile, fit "
                f"uses {type(expected).__name__}; for a regression, load the model with labels=1"
            )


def weights_by_id(kind: Kind, weights: Any) -> dict | None:
    """Returns the weights of labels by their ids, or None if there are none."""
    return kind.class_weights(weights) if weights else None


def as_list(values: Any) -> Any:
    """Returns labels or weights as a list or an array, which can be sliced."""
    if values is None or isinstance(values, (list, tuple)):
        return None if values is None else list(values)
    return np.asarray(values)


def hold_out(rows: Encoded, labels: Iterable, *, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of training rows and of held-out rows, a fraction of each label."""
    names = [str(label) for label in labels]
    label_ids = {name: index for index, name in enumerate(dict.fromkeys(names))}
    order = np.argsort([label_ids[name] for name in names], kind="stable")
    ends = np.ceil(np.round(fraction * np.arange(len(names) + 1), 6))
    is_held_out = np.empty(len(names), bool)
    is_held_out[order] = np.diff(ends) == 1
    if is_held_out.all():
        raise InputError(f"validation_split={fraction} leaves no text to train on")
    is_held_out = is_held_out[rows.examples]
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def repeated_batches(encoded: Encoded, rows: np.ndarray, size: int) -> Batches:
    """Returns endless batches of some rows in their order."""
    batches = np.split(rows, range(size, len(rows), size))
    return batches_of(encoded, lambda: itertools.cycle(batches))


def shuffled_batches(encoded: Encoded, rows: np.ndarray, size: int) -> Batches:
    """Returns endless shuffled batches of some rows; rows of similar length share a batch."""
    lengths = encoded.lengths[rows]
    seed = int(keras.random.SeedGenerator().state[0])  # depends on keras.utils.set_random_seed
    shuffled = functools.partial(length_grouped_batches, lengths, batch_size=size, seed=seed)
    return batches_of(encoded, lambda: (rows[each] for each in shuffled()))


def ordered_batches(encoded: Encoded, rows: np.ndarray, size: int) -> Batches:
    """Returns the batches of one pass over some rows, the longest rows first."""
    longest = longest_first_batches(encoded.lengths[rows], batch_size=size)
    batches = [np.sort(rows[each]) for each in longest]
    return batches_of(encoded, lambda: batches, num_batches=len(batches))
