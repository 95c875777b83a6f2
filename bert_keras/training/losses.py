"""Logits and labels in, the losses of pretraining out, as the original computes them."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMLoss(keras.losses.Loss):
    """sum(weight x cross-entropy) / (sum(weight) + 1e-5), over the whole batch.

    `y_true` int [B, P], `y_pred` logits [B, P, V], `sample_weight` [B, P] with 1 for a real
    prediction and 0 for a filled slot. Source: run_pretraining.py, get_masked_lm_output.
    """

    def __init__(self, name: str = "masked_lm_loss", **kwargs):
        super().__init__(name=name, **kwargs)

    def __call__(self, y_true, y_pred, sample_weight=None):
        loss_BP = ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        weight_BP = ops.ones_like(loss_BP) if sample_weight is None else sample_weight
        weight_BP = ops.cast(weight_BP, loss_BP.dtype)
        return ops.sum(loss_BP * weight_BP) / (ops.sum(weight_BP) + 1e-5)


def pretraining_losses() -> dict[str, keras.losses.Loss]:
    """For `compile(loss=...)`: masked LM plus next sentence, summed with equal weight."""
    return {
        "masked_lm": MaskedLMLoss(),
        "next_sentence": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    }


def pretraining_metrics() -> dict[str, list[keras.metrics.Metric]]:
    """For `compile(weighted_metrics=...)`: filled slots weigh nothing."""
    return {
        name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        for name in ("masked_lm", "next_sentence")
    }
