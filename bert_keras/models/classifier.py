"""Encoder under a classification head: labels for a text, a pair, or the windows of a long text."""

import keras
from keras import ops

from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.layers.classification import ClassificationHead
from bert_keras.models.task_model import TaskModel

WINDOW_POOLINGS = ("mean", "max")


@keras.saving.register_keras_serializable(package="bert_keras")
class BertClassifier(TaskModel):
    """Section 4.1. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T]; returns
    logits [B, num_labels]. `dropout_rate` is the head's own, the encoder's unless given.

    Inputs [B, W, T] are W windows of each long text: the logits are the mean or, as
    `window_pooling` says, the largest of those of its windows. One without any input_mask is
    padding and does not count.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        dropout_rate: float | None = None,
        window_pooling: str = "mean",
        name: str = "classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        if window_pooling not in WINDOW_POOLINGS:
            raise InputError(
                f"window_pooling is {window_pooling!r}; expected one of {WINDOW_POOLINGS}"
            )
        self.num_labels = num_labels
        self.dropout_rate = config.hidden_dropout_rate if dropout_rate is None else dropout_rate
        self.window_pooling = window_pooling
        self.classification = ClassificationHead(
            num_labels,
            dropout_rate=self.dropout_rate,
            initializer_stddev=config.initializer_stddev,
            dtype=self.dtype_policy,
            name="classification",
        )
        self.build()

    def build_heads(self):
        self.classification.build((None, self.config.hidden_size))

    def call(self, inputs, training=False):
        if len(inputs["input_ids"].shape) == 2:
            return self._logits(inputs, training=training)
        _, num_windows, length = ops.shape(inputs["input_ids"])
        rows = {name: ops.reshape(array, (-1, length)) for name, array in inputs.items()}
        logits_XL = self._logits(rows, training=training)
        logits_BWL = ops.reshape(logits_XL, (-1, num_windows, self.num_labels))
        is_real_BW1 = ops.any(ops.cast(inputs["input_mask"], "bool"), axis=-1)[..., None]
        if self.window_pooling == "max":
            return ops.max(ops.where(is_real_BW1, logits_BWL, -float("inf")), axis=1)
        real_BW1 = ops.cast(is_real_BW1, logits_BWL.dtype)
        return ops.sum(logits_BWL * real_BW1, axis=1) / ops.sum(real_BW1, axis=1)

    def _logits(self, inputs, *, training):
        pooled_BD = self.encoder(inputs, training=training)["pooled_output"]
        return self.classification(pooled_BD, training=training)

    @classmethod
    def from_card(cls, card: ModelCard):
        """Windows are pooled as the task's `long_texts` says."""
        pooling = card.task.get("long_texts")
        windows = {"window_pooling": pooling} if pooling in WINDOW_POOLINGS else {}
        return cls(card.config, num_labels=len(card.labels), **windows)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "dropout_rate": self.dropout_rate,
            "window_pooling": self.window_pooling,
        }
