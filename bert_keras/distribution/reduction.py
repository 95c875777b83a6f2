"""Losses that report their sum and their weight, so that one mean covers all replicas and parts."""

import math

import keras
from keras import ops

from bert_keras.errors import InputError


class SummedLoss(keras.losses.Loss):
    """A loss whose mean is taken over the global batch: sum / (weight + `epsilon`).

    Subclasses define `call`, which returns one number for each element, [B, ...]. The train step
    first adds the values of `weight` over all replicas and all parts of a batch. It then divides
    each part's `sum` by this total. All values are computed in float32.

    The attribute `reduction` determines the weight:

    - "mean_with_sample_weight": the sum of the sample weights. Without sample weights it is the
      number of rows.
    - "sum": the sum is not divided.
    - any other reduction: the number of rows; all elements of a row count equally.

    A loss that compares rows with each other sets `needs_whole_batch`. The train step then calls
    `sum` once with the rows of all replicas and all parts.
    """

    epsilon = 0.0
    needs_whole_batch = False  # whether the loss of a row depends on other rows
    reads_targets = True  # whether `call` reads `y_true`; if not, `fit` needs no targets

    def sum(self, y_true, y_pred, sample_weight=None):
        """Returns the weighted sum of the losses of these rows.

        If the weight is the number of rows, each row contributes the mean of its elements.
        """
        losses = ops.cast(self.call(y_true, y_pred), "float32")
        if sample_weight is not None:
            weights, rank = _float(sample_weight), len(losses.shape)
            if 0 < len(weights.shape) < rank:  # weights [B] would broadcast in losses [B, B]
                raise InputError(
                    f"the sample weights have the shape {tuple(weights.shape)}; expected "
                    f"{rank} dimensions, those of the losses, {tuple(losses.shape)}"
                )
            # Weights [B, 1] would broadcast losses [B] to [B, B].
            losses *= ops.squeeze(weights, -1) if len(weights.shape) > rank else weights
        total = ops.sum(losses)
        if self.reduction == "sum" or self._counts_weights(sample_weight):
            return total
        return ops.divide_no_nan(total, _float(math.prod(ops.shape(losses)[1:])))

    def weight(self, y_true, sample_weight=None):
        """Returns the weight of these rows, their part of the divisor of the mean."""
        if self._counts_weights(sample_weight):
            return ops.sum(_float(sample_weight))
        return _float(ops.shape(y_true)[0])

    def mean(self, total, weight):
        """Divides a sum, or a part of it, by the weight of the global batch."""
        return total if self.reduction == "sum" else ops.divide_no_nan(total, weight + self.epsilon)

    def __call__(self, y_true, y_pred, sample_weight=None):
        total = self.sum(y_true, y_pred, sample_weight)
        return self.mean(total, self.weight(y_true, sample_weight))

    def _counts_weights(self, sample_weight) -> bool:
        return sample_weight is not None and self.reduction == "mean_with_sample_weight"


def summed(loss) -> SummedLoss:
    """Converts a loss to a SummedLoss.

    Args:
        loss: A SummedLoss, which is returned unchanged, or a Keras loss: a name, a function or an
            object.
    """
    loss = keras.losses.get(loss)
    if isinstance(loss, SummedLoss):
        return loss
    is_object = isinstance(loss, keras.losses.Loss)
    wrapped = SummedLoss(reduction=loss.reduction if is_object else "sum_over_batch_size")
    wrapped.call = loss.call if is_object else loss
    return wrapped


def _float(values):
    return ops.cast(values, "float32")
