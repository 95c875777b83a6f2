"""Losses whose mean is taken over the global batch, on any number of replicas and in parts."""

import math
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.layers import Tensor


@dataclass(frozen=True)
class PartWeight:
    """The sample weights of one part of a batch, and the divisor of its loss."""

    weight: Any
    divisor: Any


class GlobalLoss(keras.losses.Loss):
    """A loss that is divided by the weight of the global batch.

    Keras divides the loss of each replica by the replica's own weight, so a prediction counts more
    on a replica with few predictions. Here the weights are first added over all replicas.
    Subclasses define `call`, which returns one number for each element, [B, ...].

    With the `reduction` "sum", the sum is not divided. With "mean_with_sample_weight", the weight
    is the sum of the sample weights, if there are any. Otherwise it is the number of rows, and all
    elements of a row count equally.
    """

    epsilon = 0.0  # is added to the weight
    needs_whole_batch = False  # whether a loss compares rows, and needs the rows of all replicas

    def sum(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None):
        """Returns the weighted sum of the losses of elements or, if rows count, of rows."""
        losses = ops.cast(self.call(y_true, y_pred), "float32")
        if sample_weight is not None:
            weights, rank = ops.cast(sample_weight, "float32"), len(losses.shape)
            # Weights [B] would broadcast in losses [B, B]; a loss that is one number takes none.
            if 0 < len(weights.shape) < rank or (rank == 0 and weights.shape):
                raise InputError(
                    f"the sample weights have the shape {weights.shape}; expected {losses.shape}"
                )
            # Weights [B, 1] would broadcast losses [B] to [B, B].
            losses *= ops.squeeze(weights, -1) if len(weights.shape) > rank else weights
        total = ops.sum(losses)
        if self.reduction == "sum" or self._counts_weights(sample_weight):
            return total
        return ops.divide_no_nan(total, ops.cast(math.prod(ops.shape(losses)[1:]), "float32"))

    def divisor(self, num_rows: Any, sample_weight: Tensor = None):
        """Returns the divisor of the sum over the global batch, from the rows of this replica."""
        if self.reduction == "sum":
            return 1.0
        is_weighted = self._counts_weights(sample_weight)
        weight = ops.sum(ops.cast(sample_weight if is_weighted else num_rows, "float32"))
        return sum_over_replicas(weight) + self.epsilon

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None):
        if is_part := isinstance(sample_weight, PartWeight):
            sample_weight, divisor = sample_weight.weight, sample_weight.divisor
        else:
            divisor = self.divisor(ops.shape(y_pred)[0], sample_weight)
        rows = [y_true, y_pred, sample_weight]
        if self.needs_whole_batch and num_replicas() > 1:
            # Each replica computes the same sum over the rows of all replicas.
            known = [ops.cast(each, "float32") for each in rows if each is not None]
            rows_of_all = iter(concatenated_over_replicas(known))
            rows = [None if each is None else next(rows_of_all) for each in rows]
            divisor *= num_replicas()
        loss = ops.divide_no_nan(self.sum(*rows), divisor)
        if not is_part and num_replicas() > 1:
            # Keras logs the mean of all replicas' losses, weighted with their rows. With an equal
            # value on all replicas, the mean is right for any numbers of rows.
            loss += ops.stop_gradient(sum_over_replicas(loss) / num_replicas() - loss)
        return loss

    def _counts_weights(self, sample_weight) -> bool:
        return sample_weight is not None and self.reduction == "mean_with_sample_weight"


@keras.saving.register_keras_serializable(package="bert_keras")
class GlobalMean(GlobalLoss):
    """A loss object of Keras, such as `keras.losses.MeanSquaredError()`, with a global mean."""

    def __init__(self, loss: keras.losses.Loss):
        super().__init__(name=loss.name, reduction=loss.reduction)
        self.loss = loss

    def call(self, y_true: Tensor, y_pred: Tensor):
        return self.loss.call(*(ops.convert_to_tensor(y, self.dtype) for y in (y_true, y_pred)))

    def get_config(self):
        return {"loss": keras.losses.serialize(self.loss)}

    @classmethod
    def from_config(cls, config: dict):
        return cls(keras.losses.deserialize(config["loss"]))


def global_loss(loss: keras.losses.Loss) -> GlobalLoss:
    """Returns the loss if it is a GlobalLoss, otherwise a GlobalMean of it."""
    return loss if isinstance(loss, GlobalLoss) else GlobalMean(loss)


def _replica_context():
    """Returns the context of this replica; None unless it is one of several of TensorFlow."""
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

    The tensors of a replica have equal numbers of rows, which may be 0. The gradient of a replica's
    rows is the sum of the gradients over all replicas.
    """
    context = _replica_context()
    if context is None:
        return tensors
    import tensorflow as tf

    index = tf.cast(context.replica_id_in_sync_group, "int32")
    # A sum of float32, because TensorFlow keeps int32 in the memory of the host.
    one_hot = tf.one_hot(index, num_replicas()) * tf.cast(tf.shape(tensors[0])[0], "float32")
    counts = tf.cast(sum_over_replicas(one_hot), "int32")
    before, after = tf.reduce_sum(counts[:index]), tf.reduce_sum(counts[index + 1 :])

    def padded(tensor):
        sizes = [[before, after], *(len(tensor.shape) - 1) * [[0, 0]]]
        return tf.ensure_shape(tf.pad(tensor, sizes), (None, *tensor.shape[1:]))

    return sum_over_replicas([padded(tensor) for tensor in tensors])
