"""Operations on flat tensors, which hold the elements of several texts one after another."""

from typing import Any

import tensorflow as tf

RaggedTensor: Any = tf.RaggedTensor  # the type checker's stubs lack its constructors


def num_before(chosen: tf.Tensor) -> tf.Tensor:
    """bool [N] to int64 [N+1]: how many are chosen before each position and before the end."""
    return tf.pad(tf.cumsum(tf.cast(chosen, tf.int64)), [[1, 0]])


def previous(values: tf.Tensor, number: int, *, filler: int = 0) -> tf.Tensor:
    """The value `number` positions before each; `filler` (or False) where there is none."""
    return tf.pad(values, [[number, 0]], constant_values=filler)[: tf.size(values)]


def following(values: tf.Tensor, number: int) -> tf.Tensor:
    """The value `number` positions after each; 0 or False where there is none."""
    return tf.pad(values, [[0, number]])[number:]


def every_second(chosen: tf.Tensor) -> tf.Tensor:
    """bool [N]: of each run of chosen elements the first, the third and so on."""
    begins = chosen & tf.logical_not(previous(chosen, 1))
    starts = tf.pad(tf.where(begins)[:, 0], [[1, 0]])
    start = tf.gather(starts, num_before(begins)[1:])
    offset = tf.range(tf.size(chosen, tf.int64)) - start
    return chosen & (tf.math.floormod(offset, 2) == 0)
