"""Losses and metrics of pretraining and distillation; `bert_keras.layers` explains suffixes."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.distribution.loss import GlobalLoss, GlobalMean
from bert_keras.layers import Tensor

OUTPUTS = ("masked_lm", "next_sentence")


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMLoss(GlobalLoss):
    """The masked-LM loss: sum(weight x cross-entropy) / (sum(weight) + 1e-5) over the global batch.

    It reads `y_true` int [B, P], logits `y_pred` [B, P, V] and `sample_weight` [B, P], 1 for a real
    prediction and 0 for an unused position. It is NaN if `y_true` is not a token id. Source:
    run_pretraining.py, get_masked_lm_output.
    """

    epsilon = 1e-5

    def __init__(self, name: str = "masked_lm_loss", **kwargs):
        super().__init__(name=name, **{"reduction": "mean_with_sample_weight", **kwargs})

    def call(self, y_true: Tensor, y_pred: Tensor):
        targets_X = ops.reshape(y_true, (-1,))

        @ops.custom_gradient  # takes half the time of Keras' loss on a CPU
        def cross_entropy(logits_XV):
            shifted_XV = logits_XV - ops.max(logits_XV, axis=-1, keepdims=True)
            target_logits_X, exp_XV = _gather_targets(shifted_XV, targets_X), ops.exp(shifted_XV)
            sum_X = ops.sum(exp_XV, axis=-1)

            def gradient(upstream_X):
                scale_X = upstream_X / sum_X
                at_targets_X = ops.exp(target_logits_X) * scale_X - upstream_X
                tokens_X = _clip_to_ids(logits_XV, targets_X)
                if keras.backend.backend() == "jax":  # XLA on a GPU fuses this, but not a scatter
                    is_target_XV = ops.arange(logits_XV.shape[-1]) == tokens_X[:, None]
                    return exp_XV * scale_X[:, None] - is_target_XV * upstream_X[:, None]
                indices_X2 = ops.stack([ops.arange(ops.size(tokens_X)), tokens_X], axis=-1)
                return ops.scatter_update(exp_XV * scale_X[:, None], indices_X2, at_targets_X)

            return ops.log(sum_X) - target_logits_X, gradient

        logits_XV = ops.reshape(ops.cast(y_pred, self.dtype), (-1, y_pred.shape[-1]))
        return ops.reshape(cross_entropy(logits_XV), ops.shape(y_true))


@keras.saving.register_keras_serializable(package="bert_keras")
class ReplacedTokenLoss(GlobalLoss):
    """The loss of a discriminator: sum(weight x binary cross-entropy) / (sum(weight) + 1e-6).

    `y_pred` [B, T, 2] has the logit that a token was replaced, and 1 if it was replaced, otherwise
    0. `y_true` is not read. `sample_weight` [B, T] is 1 for a token and 0 for padding. Source:
    run_pretraining.py of Clark et al. 2020.
    """

    epsilon = 1e-6

    def __init__(self, name: str = "replaced_token_loss", **kwargs):
        super().__init__(name=name, **{"reduction": "mean_with_sample_weight", **kwargs})

    def call(self, y_true: Tensor, y_pred: Tensor):
        logits_BT, is_replaced_BT = _unstack(y_pred)
        return ops.softplus(logits_BT) - is_replaced_BT * logits_BT


def _unstack(y_pred):
    y_pred = ops.cast(y_pred, "float32")
    return y_pred[..., 0], ops.stop_gradient(y_pred[..., 1])


@keras.saving.register_keras_serializable(package="bert_keras")
def is_detected(y_true: Tensor, y_pred: Tensor):
    """Returns whether a discriminator is right about each token; see ReplacedTokenLoss."""
    logits_BT, is_replaced_BT = _unstack(y_pred)
    return (logits_BT > 0) == (is_replaced_BT > 0)


@keras.saving.register_keras_serializable(package="bert_keras")
def is_replaced(y_true: Tensor, y_pred: Tensor):
    """Returns whether each token was replaced; see ReplacedTokenLoss."""
    return _unstack(y_pred)[1]


def _gather_targets(logits_XV, targets_X):
    """Returns the logit of each target [X], or NaN if the target is not a token id."""
    tokens_X = _clip_to_ids(logits_XV, targets_X)
    logits_X = ops.take_along_axis(logits_XV, tokens_X[:, None], axis=-1)[:, 0]
    return ops.where(ops.cast(targets_X, "int32") == tokens_X, logits_X, float("nan"))


def _clip_to_ids(logits_XV, targets_X):
    """Returns the column of each target; targets out of range are clipped to 0 or V - 1."""
    return ops.clip(ops.cast(targets_X, "int32"), 0, logits_XV.shape[-1] - 1)


@keras.saving.register_keras_serializable(package="bert_keras")
def is_best(y_true: Tensor, y_pred: Tensor):
    """Returns whether the logit of the target int [...] is the highest of its logits [..., V]."""
    # With TensorFlow, `ops.argmax` takes ten times as long as `ops.max`.
    logits_XV = ops.reshape(y_pred, (-1, y_pred.shape[-1]))
    # The same operation as in the loss, so that it is computed once.
    highest_X = ops.max(logits_XV, axis=-1, keepdims=True)[:, 0]
    best_X = _gather_targets(logits_XV, ops.reshape(y_true, (-1,))) >= highest_X
    return ops.reshape(best_X, ops.shape(y_true))


def soft_divergence(teacher: Tensor, student: Tensor, *, temperature: float):
    """Returns the KL divergence between the softmax of the teacher's and the student's logits.

    The logits [..., V] are divided by `temperature`, and the divergence, float32 [...], is
    multiplied by its square (Hinton et al. 2015, section 2).
    """
    scaled = [ops.cast(logits, "float32") / temperature for logits in (teacher, student)]
    teacher, student = (ops.log_softmax(logits, axis=-1) for logits in scaled)
    return temperature**2 * ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)


def cosine_distance(teacher: Tensor, student: Tensor):
    """Returns 1 - the cosine between vectors [..., D], as [...] in float32."""
    teacher, student = (ops.cast(vectors, "float32") for vectors in (teacher, student))
    squares = [ops.sum(ops.square(each), axis=-1) + 1e-12 for each in (teacher, student)]
    return 1.0 - ops.sum(teacher * student, axis=-1) * ops.rsqrt(squares[0] * squares[1])


def pretraining_losses(outputs: Sequence[str] = OUTPUTS) -> dict[str, keras.losses.Loss]:
    """Returns the losses of a pretraining model for `compile(loss=...)`.

    Keras minimises their sum. The next-sentence loss is the mean over pairs with a weight above 0.

    Args:
        outputs: The outputs of the model: "masked_lm", "next_sentence", "replaced_token".

    Returns:
        A loss for each output, by name.

    Example:

    ```python
    model = BertMaskedLM(preset("tiny", vocab_size=4_000))
    model.compile(BertAdamW(1e-4), loss=pretraining_losses(["masked_lm"]))
    ```
    """
    options = {"from_logits": True, "reduction": "mean_with_sample_weight"}
    losses = {
        "masked_lm": MaskedLMLoss(),
        "next_sentence": GlobalMean(keras.losses.SparseCategoricalCrossentropy(**options)),
        "replaced_token": ReplacedTokenLoss(),
    }
    return {name: losses[name] for name in outputs}


def pretraining_metrics(outputs: Sequence[str] = OUTPUTS) -> dict[str, list[keras.metrics.Metric]]:
    """Returns the accuracies of a pretraining model for `compile(weighted_metrics=...)`.

    They ignore unused predictions. In the logs, `_accuracy` follows the name of the output, as in
    `masked_lm_accuracy`. `replaced_token_rate` is the fraction of replaced tokens.

    Args:
        outputs: The outputs of the model: "masked_lm", "next_sentence", "replaced_token".

    Returns:
        A list of metrics for each output, by name.

    Example:

    ```python
    model = BertPretrainer(preset("tiny", vocab_size=4_000))
    model.compile(loss=pretraining_losses(), weighted_metrics=pretraining_metrics())
    ```
    """
    # Keras adds the output's name to the names of metrics only if the model has several outputs.
    prefix = f"{outputs[0]}_" if len(outputs) == 1 else ""
    name = f"{prefix}accuracy"
    metrics = {
        "masked_lm": [keras.metrics.MeanMetricWrapper(is_best, name=name)],
        "next_sentence": [keras.metrics.SparseCategoricalAccuracy(name=name)],
        "replaced_token": [
            keras.metrics.MeanMetricWrapper(is_detected, name=name),
            keras.metrics.MeanMetricWrapper(is_replaced, name=f"{prefix}rate"),
        ],
    }
    return {name: metrics[name] for name in outputs}
