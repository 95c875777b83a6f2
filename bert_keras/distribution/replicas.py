"""Sums over all replicas, and assignments to a replica's own copy of a variable."""

import keras
import tensorflow as tf


def num_replicas() -> int:
    """Returns the number of replicas of the current strategy."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def replica_id():
    """int32 scalar, 0 to `num_replicas` - 1."""
    context = tf.distribute.get_replica_context()
    return tf.cast(context.replica_id_in_sync_group, "int32")


def sum_over_replicas(tensors):
    """Any structure of dense tensors, of equal shapes on all replicas; between steps, itself."""
    context = tf.distribute.get_replica_context()
    if context is None or num_replicas() == 1:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def number(variable: keras.Variable):
    """Of a scalar, between steps, as Python's own: a variable may lie on many devices."""
    return variable.numpy().item()


def own_copy(variable: keras.Variable):
    """The handle, for raw operations, of the copy of `variable` that lies with this replica.

    Copies stay equal only where every replica does the same to its own: after `sum_over_replicas`.
    Unlike `assign`, which brings all replicas together, such an operation may stand in `tf.cond`.
    """
    return variable.value.handle


def set_own(variable: keras.Variable, value) -> None:
    """Assigns `value` to this replica's copy of `variable`."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignVariableOp(resource=own_copy(variable), value=value)


def add_to_own(variable: keras.Variable, value) -> None:
    """Adds `value` to this replica's copy of `variable`."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignAddVariableOp(resource=own_copy(variable), value=value)
