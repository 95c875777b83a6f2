"""Operations on flat tensors, which hold the elements of several texts one after another."""

from typing import Any, cast

import tensorflow as tf

_RaggedTensor = cast(Any, tf.RaggedTensor)  # the type checker's stubs lack its constructors


def ragged_by_splits(values, splits: tf.Tensor) -> tf.RaggedTensor:
    """Row n is values[splits[n] : splits[n + 1]]."""
    return _RaggedTensor.from_row_splits(values, splits, validate=False)


def ragged_by_starts(values, starts: tf.Tensor) -> tf.RaggedTensor:
    """Row n begins at starts[n] and ends where the next one begins."""
    return _RaggedTensor.from_row_starts(values, starts, validate=False)


def ragged_by_lengths(values, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Row n has the next lengths[n] values."""
    return _RaggedTensor.from_row_lengths(values, lengths, validate=False)


def ragged_by_rows(values, rows: tf.Tensor, *, num_rows: tf.Tensor) -> tf.RaggedTensor:
    """Value n is in row rows[n]; rows ascend."""
    return _RaggedTensor.from_value_rowids(values, rows, nrows=num_rows, validate=False)


def num_before(chosen: tf.Tensor) -> tf.Tensor:
    """bool [N] to int64 [N+1]: how many are chosen before each position and before the end."""
    return tf.pad(tf.cumsum(tf.cast(chosen, tf.int64)), [[1, 0]])


def previous(values: tf.Tensor, number: int) -> tf.Tensor:
    """The value `number` positions before each; 0 or False where there is none."""
    return tf.pad(values, [[number, 0]])[: tf.size(values)]


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
