"""Adds up and concatenates tensors over the replicas of tf.distribute.

With one replica, and with JAX, whose arrays have the rows of all devices, nothing changes.
"""

from typing import Any

import keras


def _replica_context():
    """Returns the context of this replica; None unless it is one of several."""
    if keras.config.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


def num_replicas() -> int:
    """Returns the number of replicas that compute together with the calling code."""
    context = _replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def sum_over_replicas(tensors: Any):
    """Adds a structure of tensors, whose shapes are equal on all replicas, over the replicas."""
    context = _replica_context()
    return tensors if context is None else context.all_reduce("SUM", tensors)


def concatenated_over_replicas(tensors: list) -> list:
    """Concatenates the float tensors of all replicas along the first axis, in their order.

    Unlike `ReplicaContext.all_gather`, it also works on the logical devices of one CPU. The tensors
    of a replica have equal numbers of rows, which may be 0. The gradient of a replica's rows is the
    sum of the gradients over all replicas.
    """
    context = _replica_context()
    if context is None:
        return tensors
    import tensorflow as tf

    index = tf.cast(context.replica_id_in_sync_group, "int32")
    num_rows = tf.shape(tensors[0])[0]
    # A sum of float32, because TensorFlow keeps int32 in the memory of the host.
    one_hot = tf.one_hot(index, num_replicas()) * tf.cast(num_rows, "float32")
    counts = tf.cast(sum_over_replicas(one_hot), "int32")
    before, after = tf.reduce_sum(counts[:index]), tf.reduce_sum(counts[index + 1 :])

    def padded(tensor):
        sizes = [[before, after], *(len(tensor.shape) - 1) * [[0, 0]]]
        return tf.ensure_shape(tf.pad(tensor, sizes), (None, *tensor.shape[1:]))

    return sum_over_replicas([padded(tensor) for tensor in tensors])
