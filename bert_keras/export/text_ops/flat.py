"""Operations on flat tensors, which concatenate the elements of several texts."""

from typing import Any

import tensorflow as tf

RaggedTensor: Any = tf.RaggedTensor  # the type checker's stubs lack its constructors


def num_before(chosen: tf.Tensor) -> tf.Tensor:
    """Counts the True elements before each position and before the end.

    Args:
        chosen: bool [N].

    Returns:
        int64 [N+1].
    """
    return tf.pad(tf.cumsum(tf.cast(chosen, tf.int64)), [[1, 0]])


def previous(values: tf.Tensor, number: int, *, filler: int = 0) -> tf.Tensor:
    """Returns the value `number` positions before each element; `filler` where none exists."""
    return tf.pad(values, [[number, 0]], constant_values=filler)[: tf.size(values)]


def following(values: tf.Tensor, number: int) -> tf.Tensor:
    """Returns the value `number` positions after each element; 0 or False where none exists."""
    return tf.pad(values, [[0, number]])[number:]


def every_second(chosen: tf.Tensor) -> tf.Tensor:
    """Keeps the first, third, fifth, ... element of each run of True elements, bool [N]."""
    begins = chosen & tf.logical_not(previous(chosen, 1))
    starts = tf.pad(tf.where(begins)[:, 0], [[1, 0]])
    start = tf.gather(starts, num_before(begins)[1:])
    offset = tf.range(tf.size(chosen, tf.int64)) - start
    return chosen & (tf.math.floormod(offset, 2) == 0)
