"""Sums tensors over all replicas and assigns to a replica's local copy of a variable."""

import keras
import tensorflow as tf


def num_replicas() -> int:
    """Returns the number of replicas of the current strategy."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def replica_id():
    """Returns the index of this replica, an int32 scalar from 0 to `num_replicas()` - 1."""
    context = tf.distribute.get_replica_context()
    return tf.cast(context.replica_id_in_sync_group, "int32")


def sum_over_replicas(tensors):
    """Adds tensors over all replicas.

    Args:
        tensors: Any structure of dense tensors whose shapes are equal on all replicas.

    Returns:
        The structure of sums. With one replica, or outside of a replica context, `tensors` is
        returned unchanged.
    """
    context = tf.distribute.get_replica_context()
    if context is None or num_replicas() == 1:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def scalar_value(variable: keras.Variable):
    """Returns the value of a scalar variable as a Python number.

    Works for variables with copies on several devices. Call it between steps.
    """
    return variable.numpy().item()


def copy_handle(variable: keras.Variable):
    """Returns the resource handle of this replica's copy of `variable`, for raw operations.

    The copies stay equal only if every replica performs the same operation on its copy, which is
    the case after `sum_over_replicas`. Unlike `assign`, which synchronises all replicas, such an
    operation is allowed inside `tf.cond`.
    """
    return variable.value.handle


def assign_local(variable: keras.Variable, value) -> None:
    """Assigns `value` to this replica's copy of `variable`."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignVariableOp(resource=copy_handle(variable), value=value)


def add_local(variable: keras.Variable, value) -> None:
    """Adds `value` to this replica's copy of `variable`."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignAddVariableOp(resource=copy_handle(variable), value=value)
