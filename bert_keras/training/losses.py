"""Logits and labels in, the losses of pretraining out, as the original computes them."""

from collections.abc import Sequence

import keras
from keras import ops

OUTPUTS = ("masked_lm", "next_sentence")


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMLoss(keras.losses.Loss):
    """sum(weight x cross-entropy) / (sum(weight) + 1e-5), over the whole batch.

    `y_true` int [B, P], `y_pred` logits [B, P, V], `sample_weight` [B, P] with 1 for a real
    prediction and 0 for a filled slot. Computed in float32, whatever the logits are. Source:
    run_pretraining.py, get_masked_lm_output.
    """

    epsilon = 1e-5

    def __init__(self, name: str = "masked_lm_loss", **kwargs):
        super().__init__(name=name, **{"reduction": "mean_with_sample_weight", **kwargs})

    def call(self, y_true, y_pred):
        logits_BPV = ops.cast(y_pred, self.dtype)
        return ops.sparse_categorical_crossentropy(y_true, logits_BPV, from_logits=True)

    def __call__(self, y_true, y_pred, sample_weight=None):
        loss_BP = self.call(y_true, y_pred)
        weight_BP = ops.ones_like(loss_BP) if sample_weight is None else sample_weight
        weight_BP = ops.cast(weight_BP, loss_BP.dtype)
        return ops.sum(loss_BP * weight_BP) / (ops.sum(weight_BP) + self.epsilon)


def pretraining_losses(outputs: Sequence[str] = OUTPUTS) -> dict[str, keras.losses.Loss]:
    """For `compile(loss=...)`: of masked LM and next sentence those that the model puts out, summed
    with equal weight. Next sentences are averaged over those that count.
    """
    losses = {
        "masked_lm": MaskedLMLoss(),
        "next_sentence": keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
    }
    return {name: losses[name] for name in outputs}


def pretraining_metrics(
    outputs: Sequence[str] = OUTPUTS,
) -> dict[str, list[keras.metrics.Metric]]:
    """For `compile(weighted_metrics=...)`: filled slots weigh nothing. In the logs they are
    `masked_lm_accuracy` and `next_sentence_accuracy`.
    """
    # Keras puts an output's name before its metrics only where there are several outputs.
    prefix = f"{outputs[0]}_" if len(outputs) == 1 else ""
    return {
        name: [keras.metrics.SparseCategoricalAccuracy(name=f"{prefix}accuracy")]
        for name in outputs
    }
