"""Turns texts and labels into rows and batches for Keras."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from bert_keras.data.batches import Batches, batches_of
from bert_keras.data.encoded import (
    Encoded,
    EncodedTexts,
    length_grouped_batches,
    longest_first_batches,
)
from bert_keras.errors import InputError, quoted, unexpected_value
from bert_keras.kinds.kind import Kind, finite_numbers
from bert_keras.text.columns import as_list, columns_of, is_text


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
    columns, labels = columns_of(x), None if y is None else as_list(y)
    num_texts = len(columns[0])
    if labels is None and kind.needs_labels and not (model.compiled and not model.loss):
        text = quoted(columns[0][0])
        raise InputError(f"y is None for texts such as {text}; expected labels: (texts, labels)")
    if labels is not None:
        _check_number("y", labels, num_texts)
    rows: Any = kind.encoded(columns, labels)
    if labels is not None and len(rows):
        check_losses(model, kind, rows.batch(np.arange(1))[1])
    if weights is None:
        return rows
    _check_number("sample_weight", weights, num_texts)
    if not isinstance(rows, EncodedTexts):
        kind.class_weights({})  # raises InputError
    weights = finite_numbers(weights, name="sample_weight", least=0).reshape(num_texts).copy()
    targets = np.zeros(num_texts) if rows.targets is None else rows.targets
    return dataclasses.replace(rows, targets=targets, weights=weights)


def weights_by_id(kind: Kind, weights: Any) -> dict | None:
    """Returns the weights of labels by their ids, or None if there are none."""
    if not isinstance(weights, Mapping | None):
        _check_number("class_weight", weights, len(kind.metadata.labels))
        weights = dict(enumerate(weights))
    finite_numbers([*(weights or {}).values()], name="class_weight", least=0)
    return kind.class_weights(weights) if weights else None


def weights_of(targets: Any, by_id: Mapping) -> np.ndarray:
    """Returns the weight of the label of each text, float32 [N]."""
    ids = np.asarray(targets).reshape(len(targets), -1)
    ids = ids.argmax(axis=-1) if ids.shape[1] > 1 else ids[:, 0]
    return np.array([by_id.get(int(each), 1.0) for each in ids], np.float32)


def checked_targets(model: keras.Model, kind: Kind, y: Any, shape: Sequence) -> Any:
    """Returns the labels of inputs with the given shape of `input_ids`, names of labels as ids."""
    are_names = is_text(y)
    if not are_names and not _losses(model, kind):
        return y
    targets = kind.targets(y, shape)
    for each in keras.tree.flatten(targets):
        _check_number("y", each, shape[0])
    check_losses(model, kind, targets)
    return y if hasattr(y, "dtype") and not are_names else targets


def check_losses(model: keras.Model, kind: Kind, targets: Any) -> None:
    """Raises InputError if a loss of Keras does not fit targets, which are arrays or specs."""
    count, rank, names = len(kind.metadata.labels), kind.ids_rank, _losses(model, kind)
    for name, target in itertools.product(names, keras.tree.flatten(targets)):
        if getattr(target.shape, "rank", 0) is None:  # TensorFlow does not know the shape
            continue
        shape, reads_ids = tuple(target.shape), "parse" in name
        are_ids = len(shape) == rank or shape[rank:] == (1,)
        fits = reads_ids != (count == 1)
        if not are_ids:
            fits = not reads_ids and shape[-1] in (count or shape[-1], None)
        if not fits:
            expected = "ids or names" if reads_ids else f"{count} numbers for each"
            raise InputError(
                f"the loss {name} does not fit targets of the shape {shape}; expected {expected}; "
                "lists of names are for several labels, labels=1 for a regression"
            )


def _losses(model: keras.Model, kind: Kind) -> list:
    """Returns the names of Keras' losses that targets must fit; [] if the loss is the user's."""
    if not kind.needs_labels:
        return []
    losses = model.loss if model.compiled else kind.compile_arguments()["loss"]
    losses = [keras.losses.get(each) for each in keras.tree.flatten(losses)]
    losses = [each for each in losses if each and each.__module__.startswith("keras.")]
    return [getattr(each, "__name__", type(each).__name__) for each in losses]


def _check_number(name: str, values: Any, count: int) -> None:
    if len(values) != count:
        raise unexpected_value(name, quoted(values), f"{count:,} values")


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
