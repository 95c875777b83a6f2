"""Adds up and concatenates tensors over all replicas; assigns to local copies of variables."""

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


def concatenated_over_replicas(tensors):
    """Concatenates tensors of all replicas along the first axis, in the order of the replicas.

    Unlike `ReplicaContext.all_gather`, it also works on the logical devices of one CPU. The
    gradient of a replica's rows is the sum of the gradients over all replicas.

    Args:
        tensors: A list of tensors with equal numbers of rows, which may differ between replicas
            and may be 0. The other axes are equal on all replicas.

    Returns:
        The list of concatenated tensors in float32. With one replica, or outside of a replica
        context, only the dtype changes.
    """
    tensors = [tf.cast(tensor, "float32") for tensor in tensors]
    if tf.distribute.get_replica_context() is None or num_replicas() == 1:
        return tensors
    index, num_rows = replica_id(), tf.shape(tensors[0])[0]
    # A sum of float32, because TensorFlow keeps int32 in the memory of the host.
    one_hot = tf.one_hot(index, num_replicas()) * tf.cast(num_rows, "float32")
    counts = tf.cast(sum_over_replicas(one_hot), "int32")
    before, after = tf.reduce_sum(counts[:index]), tf.reduce_sum(counts[index + 1 :])

    def padded(tensor):
        sizes = [[before, after], *(len(tensor.shape) - 1) * [[0, 0]]]
        return tf.ensure_shape(tf.pad(tensor, sizes), (None, *tensor.shape[1:]))

    return sum_over_replicas([padded(tensor) for tensor in tensors])


def scalar_value(variable: keras.Variable):
    """Returns the value of a scalar variable as a Python number.

    Works for variables with copies on several devices. Call it between steps.
    """
    return variable.numpy().item()


def copy_handle(variable: keras.Variable):
    """Returns the resource handle of this replica's copy of `variable`, for raw operations.

    The copies stay equal only if every replica performs the same operation on its copy, which is
    the case after `sum_over_replicas`. Unlike `assign`, such an operation does not synchronise the
    replicas.
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
