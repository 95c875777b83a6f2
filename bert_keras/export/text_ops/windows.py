"""Windows over long texts and the pooling of their logits, inside a TF graph."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from bert_keras.export.servable import traced

WINDOWS_AT_ONCE = 8  # bounds a server's memory whatever the length of a text
_POOLED = {"mean": tf.math.unsorted_segment_mean, "max": tf.math.unsorted_segment_max}


class Texts(NamedTuple):
    """Rows of one or two texts: text k of row n is `values[starts[k][n]:][: lengths[k][n]]`."""

    values: tf.Tensor
    starts: list[tf.Tensor]
    lengths: list[tf.Tensor]


class WindowRows(NamedTuple):
    """X windows over the last text of each row, those of a text together and in order.

    `owners` are the rows that they are of; `numbers` count them from 0 in each. They begin `steps`
    pieces apart and are `rooms` long, but for the last. All int64 [X].
    """

    texts: Texts
    owners: tf.Tensor
    numbers: tf.Tensor
    steps: tf.Tensor
    rooms: tf.Tensor


class Windows(NamedTuple):
    """`inputs` int32 [X,T] by name; `owners` int64 [X], the text of each among `num_texts`."""

    inputs: dict[str, tf.Tensor]
    owners: tf.Tensor
    num_texts: tf.Tensor


def window_rows(texts: Texts, *, limit: int, stride: int) -> WindowRows:
    """Rows of at most `limit` tokens, each with its first text whole. A window begins `stride`
    tokens after the one before, or where that one ends, if sooner."""
    *firsts, last = texts.lengths
    room = limit - tf.add_n([tf.zeros_like(last), *firsts])
    step = tf.clip_by_value(room, 1, stride)  # no room where nothing of the second is left
    numbers = tf.ragged.range(1 + tf.maximum(-((room - last) // step), 0))
    owners = numbers.value_rowids()
    of_windows = partial(tf.gather, indices=owners)
    steps, rooms = of_windows(step), of_windows(room)
    offsets = numbers.values * steps
    *first_starts, last_starts = map(of_windows, texts.starts)
    rows = Texts(
        texts.values,
        [*first_starts, last_starts + offsets],
        [*map(of_windows, firsts), tf.minimum(of_windows(last) - offsets, rooms)],
    )
    return WindowRows(rows, owners, numbers.values, steps, rooms)


def windows_of_tensors(inputs: dict[str, tf.Tensor]) -> Windows:
    """Inputs [B,W,T]; a window without any `input_mask` is padding."""
    is_real_BW = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
    return Windows(
        {name: tf.boolean_mask(array, is_real_BW) for name, array in inputs.items()},
        tf.where(is_real_BW)[:, 0],
        tf.shape(is_real_BW)[0],
    )


def in_parts(
    rows: dict[str, tf.Tensor], function: Callable[..., Mapping[str, tf.Tensor]]
) -> dict[str, tf.Tensor]:
    """Concatenates what `function(**rows)` returns for WINDOWS_AT_ONCE rows at a time."""
    specs = {
        name: tf.TensorSpec([None, *each.shape[1:]], each.dtype) for name, each in rows.items()
    }
    of_part = traced(function, **specs)
    size = tf.shape(next(iter(rows.values())))[0]
    count = (size + WINDOWS_AT_ONCE - 1) // WINDOWS_AT_ONCE
    found = {
        name: tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape)
        for name, spec in of_part.structured_outputs.items()
    }

    def read_part(number, found):
        first = number * WINDOWS_AT_ONCE
        part = of_part(**{name: each[first:][:WINDOWS_AT_ONCE] for name, each in rows.items()})
        return number + 1, {name: array.write(number, part[name]) for name, array in found.items()}

    _, found = tf.while_loop(
        lambda number, found: number < count, read_part, (0, found), parallel_iterations=1
    )
    return {name: array.concat() for name, array in found.items()}


def pooled_logits(
    logits_of: Callable[..., Mapping[str, tf.Tensor]], windows: Windows, *, pooling: str
) -> tf.Tensor:
    """The "mean" or "max" [B,N] over the windows of each text of `logits` [X,N], which
    `logits_of(**inputs)` returns of a few windows at a time."""
    logits = in_parts(windows.inputs, logits_of)["logits"]
    return _POOLED[pooling](logits, windows.owners, windows.num_texts)
