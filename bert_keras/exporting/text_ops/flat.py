"""Operations on flat tensors, which concatenate the elements of several texts."""

from typing import Any

import tensorflow as tf

RaggedTensor: Any = tf.RaggedTensor  # the type checker's stubs lack its constructors


def regrouped(rows: tf.RaggedTensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Concatenates consecutive rows: row n of the result has the rows splits[n] to splits[n+1].

    Args:
        rows: [W,(tokens)].
        splits: int64 [B+1].

    Returns:
        [B,(tokens)].
    """
    splits = tf.gather(rows.row_splits, splits)
    return RaggedTensor.from_row_splits(rows.values, splits, validate=False)


def num_before(is_chosen: tf.Tensor) -> tf.Tensor:
    """Counts the True elements before each position and before the end.

    Args:
        is_chosen: bool [N].

    Returns:
        int64 [N+1].
    """
    return tf.pad(tf.cumsum(tf.cast(is_chosen, tf.int64)), [[1, 0]])


def previous(values: tf.Tensor, distance: int, *, filler: float = 0) -> tf.Tensor:
    """Returns the value `distance` positions before each element; `filler` where none exists."""
    return tf.pad(values, [[distance, 0]], constant_values=filler)[: tf.size(values)]


def following(values: tf.Tensor, distance: int) -> tf.Tensor:
    """Returns the value `distance` positions after each element; 0 or False where none exists."""
    return tf.pad(values, [[0, distance]])[distance:]


def every_second(is_chosen: tf.Tensor) -> tf.Tensor:
    """Keeps the first, third, fifth, ... element of each run of True elements, bool [N]."""
    is_start = is_chosen & tf.logical_not(previous(is_chosen, 1))
    starts = tf.pad(tf.where(is_start)[:, 0], [[1, 0]])
    start = tf.gather(starts, num_before(is_start)[1:])
    offset = tf.range(tf.size(is_chosen, tf.int64)) - start
    return is_chosen & (tf.math.floormod(offset, 2) == 0)
