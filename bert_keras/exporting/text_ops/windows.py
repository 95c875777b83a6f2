"""Divides long texts into windows and pools the logits of the windows, inside a TF graph."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from bert_keras.exporting.servable import traced

# The model evaluates at most this many windows at a time. The memory that a server needs for the
# model is therefore independent of the length of a text.
WINDOWS_AT_ONCE = 8
_POOLED = {"mean": tf.math.unsorted_segment_mean, "max": tf.math.unsorted_segment_max}


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


class TextWindows(NamedTuple):
    """The packed windows of a batch of texts."""

    inputs: dict[str, tf.Tensor]  # the model's inputs, int32 [X,T] by name
    text_ids: tf.Tensor  # int64 [X], the index of the text that each window belongs to
    num_texts: tf.Tensor  # int32 scalar


def window_rows(texts: TextRows, *, limit: int, stride: int) -> WindowRows:
    """Divides the last text of each row into windows; each window keeps the whole first text.

    A window begins `stride` tokens after the preceding one. If a window has fewer than `stride`
    tokens, the next one begins where it ends.

    Args:
        texts: Rows of one or two texts.
        limit: Largest number of tokens of both texts of a window, without special tokens.
        stride: Number of tokens between the starts of consecutive windows.
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


def windows_of_tensors(inputs: dict[str, tf.Tensor]) -> TextWindows:
    """Flattens the windows of a request that contains token ids.

    Args:
        inputs: int32 [B,W,T] by name. A window whose `input_mask` is 0 everywhere is padding and is
            dropped.
    """
    is_real_BW = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
    return TextWindows(
        {name: tf.boolean_mask(array, is_real_BW) for name, array in inputs.items()},
        tf.where(is_real_BW)[:, 0],
        tf.shape(is_real_BW)[0],
    )


def in_batches(
    rows: dict[str, tf.Tensor], function: Callable[..., Mapping[str, tf.Tensor]]
) -> dict[str, tf.Tensor]:
    """Calls `function(**rows)` for WINDOWS_AT_ONCE rows at a time and concatenates the outputs.

    Args:
        rows: Tensors of the same first dimension.
        function: Takes slices of `rows` as keyword arguments and returns tensors by name.

    Returns:
        The outputs for all rows by name.
    """
    specs = {
        name: tf.TensorSpec([None, *each.shape[1:]], each.dtype) for name, each in rows.items()
    }
    of_batch = traced(function, **specs)
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


def pooled_logits(
    logits_of: Callable[..., Mapping[str, tf.Tensor]], windows: TextWindows, *, pooling: str
) -> tf.Tensor:
    """Pools the logits of the windows of each text.

    Args:
        logits_of: Takes the model's inputs as keyword arguments and returns `logits`,
            float32 [X,N]. It is called for at most WINDOWS_AT_ONCE windows.
        windows: The windows of B texts.
        pooling: "mean" or "max".

    Returns:
        float32 [B,N].
    """
    logits = in_batches(windows.inputs, logits_of)["logits"]
    return _POOLED[pooling](logits, windows.text_ids, windows.num_texts)
