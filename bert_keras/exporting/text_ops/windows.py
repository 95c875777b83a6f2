"""Divides long texts into windows, and runs a model on some of them at a time, in a TF graph."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

# The model evaluates at most this many windows at a time. The memory that a server needs for the
# model is therefore independent of the length of a text.
WINDOWS_AT_ONCE = 8


class TextRows(NamedTuple):
    """Rows of one or two texts: text k of row n is `values[starts[k][n]:][: lengths[k][n]]`."""

    values: tf.Tensor  # int32 [P], the token ids of all texts
    starts: list[tf.Tensor]  # int64 [N] for each of the one or two texts
    lengths: list[tf.Tensor]  # int64 [N] for each of the one or two texts


class WindowRows(NamedTuple):
    """X windows over the last text of each row, ordered by row and by position."""

    texts: TextRows  # X rows; the last text of each is a window
    row_ids: tf.Tensor  # int64 [X], the row of the original texts that each window belongs to
    indices: tf.Tensor  # int64 [X], the index of each window within its row, from 0
    steps: tf.Tensor  # int64 [X], the number of tokens between the starts of a row's windows
    sizes: tf.Tensor  # int64 [X], the length of a row's windows in tokens; the last can be shorter


def window_rows(texts: TextRows, *, limit: int, stride: int) -> WindowRows:
    """Divides the last text of each row into windows; each window keeps the whole first text.

    A window begins `stride` tokens after the preceding one. If a window has fewer than `stride`
    tokens, the next one begins where it ends. Both texts have `limit` tokens at most.
    """
    *first_lengths, length = texts.lengths
    size = limit - tf.add_n([tf.zeros_like(length), *first_lengths])
    step = tf.clip_by_value(size, 1, stride)  # `size` is 0 if the first text fills the row
    indices = tf.ragged.range(1 + tf.maximum(-((size - length) // step), 0))
    row_ids = indices.value_rowids()
    of_windows = partial(tf.gather, indices=row_ids)
    steps, sizes = of_windows(step), of_windows(size)
    offsets = indices.values * steps
    *first_starts, starts = map(of_windows, texts.starts)
    rows = TextRows(
        texts.values,
        [*first_starts, starts + offsets],
        [*map(of_windows, first_lengths), tf.minimum(of_windows(length) - offsets, sizes)],
    )
    return WindowRows(rows, row_ids, indices.values, steps, sizes)


def in_batches(
    rows: dict[str, tf.Tensor], function: Callable[..., Mapping[str, tf.Tensor]]
) -> dict[str, tf.Tensor]:
    """Calls `function(**rows)` for WINDOWS_AT_ONCE rows at a time and concatenates its outputs."""
    specs = {
        name: tf.TensorSpec([None, *each.shape[1:]], each.dtype) for name, each in rows.items()
    }
    traceable: Any = tf.function(function, autograph=False)
    of_batch = traceable.get_concrete_function(**specs)
    num_rows = tf.shape(next(iter(rows.values())))[0]
    num_batches = (num_rows + WINDOWS_AT_ONCE - 1) // WINDOWS_AT_ONCE
    outputs = {
        name: tf.TensorArray(spec.dtype, num_batches, infer_shape=False, element_shape=spec.shape)
        for name, spec in of_batch.structured_outputs.items()
    }

    def step(index, outputs):
        first = index * WINDOWS_AT_ONCE
        batch = of_batch(**{name: each[first:][:WINDOWS_AT_ONCE] for name, each in rows.items()})
        return index + 1, {name: array.write(index, batch[name]) for name, array in outputs.items()}

    _, outputs = tf.while_loop(
        lambda index, outputs: index < num_batches, step, (0, outputs), parallel_iterations=1
    )
    return {name: array.concat() for name, array in outputs.items()}
