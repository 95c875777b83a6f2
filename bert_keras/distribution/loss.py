"""Losses that are means over the global batch of all replicas and accumulation steps."""

import math
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.layers import Tensor


@dataclass(frozen=True)
class MicrobatchWeight:
    """Pass it to a GlobalLoss as `sample_weight` to score one gradient accumulation step."""

    weight: Any  # the sample weights of the step, or None
    divisor: Any  # the divisor of the loss of the step, from the whole batch
    is_copy: Any = None  # bool [B], True for rows that only fill the batch of JAX


class GlobalLoss(keras.losses.Loss):
    """A loss whose divisor is computed from the global batch.

    Keras divides the loss of each replica by the replica's own divisor, so a prediction counts more
    on a replica with few predictions. Here the divisors are first added over all replicas.
    Subclasses define `call`, which returns one number for each element, [B, ...].

    With the `reduction` "sum", the sum is not divided. With "mean_with_sample_weight", the divisor
    is the sum of the sample weights, if there are any. Otherwise it is the number of rows, and all
    elements of a row count equally.
    """

    epsilon = 0.0  # added to the divisor
    # True for a loss that compares the rows of all replicas, except for the rows `is_copy`.
    needs_whole_batch = False

    def weighted_sum(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None, is_copy: Tensor = None
    ):
        """Returns the weighted sum over elements; if rows are counted, each row adds its mean.

        Args:
            y_true, y_pred: The targets and the outputs, [B, ...].
            sample_weight: The weights [B] or [B, ...], or None.
            is_copy: bool [B], True for rows that only fill the batch, or None.
        """
        options = {"is_copy": is_copy} if self.needs_whole_batch else {}
        losses = ops.cast(self.call(y_true, y_pred, **options), "float32")
        rank, dtype = len(losses.shape), getattr(sample_weight, "dtype", "")
        is_only_mark = is_copy is not None and keras.backend.standardize_dtype(dtype) == "bool"
        if sample_weight is not None and not (is_only_mark and rank == 0):
            weights = ops.cast(sample_weight, "float32")
            # Weights [B] would broadcast to losses [B, B]; a scalar loss takes no weights.
            if 0 < len(weights.shape) < rank or (rank == 0 and weights.shape):
                raise InputError(
                    f"the sample weights have the shape {weights.shape}; expected {losses.shape}"
                )
            # Weights [B, 1] would broadcast losses [B] to [B, B].
            losses *= ops.squeeze(weights, -1) if len(weights.shape) > rank else weights
        total = ops.sum(losses)
        if self.reduction == "sum" or self._divides_by_weights(sample_weight):
            return total
        return ops.divide_no_nan(total, ops.cast(math.prod(ops.shape(losses)[1:]), "float32"))

    def divisor(self, num_rows: Any, sample_weight: Tensor = None):
        """Returns the global divisor: rows or weights of this replica, summed over all replicas."""
        if self.reduction == "sum":
            return 1.0
        is_weighted = self._divides_by_weights(sample_weight)
        divisor = ops.sum(ops.cast(sample_weight if is_weighted else num_rows, "float32"))
        return sum_over_replicas(divisor) + self.epsilon

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None):
        is_copy = None
        if is_microbatch := isinstance(sample_weight, MicrobatchWeight):
            divisor, is_copy = sample_weight.divisor, sample_weight.is_copy
            sample_weight = sample_weight.weight
        else:
            divisor = self.divisor(ops.shape(y_pred)[0], sample_weight)
        rows = [y_true, y_pred, sample_weight]
        if self.needs_whole_batch and num_replicas() > 1:
            # Each replica computes the same sum over the rows of all replicas, so the gradients,
            # which are added over the replicas, would count it num_replicas() times.
            given = [ops.cast(each, "float32") for each in rows if each is not None]
            gathered = iter(concatenate_over_replicas(given))
            rows = [None if each is None else next(gathered) for each in rows]
            divisor *= num_replicas()
        loss = ops.divide_no_nan(self.weighted_sum(*rows, is_copy=is_copy), divisor)
        if not is_microbatch and num_replicas() > 1:
            # The value becomes the mean over the replicas, but the gradient stays this replica's.
            # Keras logs a mean weighted by rows, which is right if all replicas have one value.
            loss += ops.stop_gradient(sum_over_replicas(loss) / num_replicas() - loss)
        return loss

    def _divides_by_weights(self, sample_weight) -> bool:
        return sample_weight is not None and self.reduction == "mean_with_sample_weight"


@keras.saving.register_keras_serializable(package="bert_keras")
class GlobalMean(GlobalLoss):
    """Gives a loss of Keras, such as `keras.losses.MeanSquaredError()`, a global divisor."""

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
    """Returns the replica context, or None without a TensorFlow strategy of several replicas."""
    if keras.config.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


def num_replicas() -> int:
    """Returns the number of TensorFlow's replicas; 1 with JAX, whose arrays are global."""
    context = _replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def sum_over_replicas(tensors: Any):
    """Sums each tensor of a nested structure over the replicas, which must have equal shapes."""
    context = _replica_context()
    return tensors if context is None else context.all_reduce("SUM", tensors)


def concatenate_over_replicas(tensors: list) -> list:
    """Concatenates the float tensors of all replicas along the first axis, in their order.

    The tensors of a replica have equal numbers of rows, which may be 0. The gradient of a replica's
    rows is the sum of the gradients over all replicas.
    """
    context = _replica_context()
    if context is None:
        return tensors
    import tensorflow as tf

    index = tf.cast(context.replica_id_in_sync_group, "int32")
    # counts[i] are the rows of replica i, summed as float32 because int32 would be in host memory.
    one_hot = tf.one_hot(index, num_replicas()) * tf.cast(tf.shape(tensors[0])[0], "float32")
    counts = tf.cast(sum_over_replicas(one_hot), "int32")
    before, after = tf.reduce_sum(counts[:index]), tf.reduce_sum(counts[index + 1 :])

    def pad(tensor):
        sizes = [[before, after], *(len(tensor.shape) - 1) * [[0, 0]]]
        return tf.ensure_shape(tf.pad(tensor, sizes), (None, *tensor.shape[1:]))

    return sum_over_replicas([pad(tensor) for tensor in tensors])
