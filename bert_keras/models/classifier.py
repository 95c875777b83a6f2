"""Encoder under a classification head: one label for a sentence or a pair of sentences."""

import keras

from bert_keras.config import BertConfig
from bert_keras.heads.classification import ClassificationHead
from bert_keras.models.task_model import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertClassifier(TaskModel):
    """Section 4.1. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T]; returns
    logits [B, num_labels]. `dropout_rate` is the head's own, the encoder's unless given.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        dropout_rate: float | None = None,
        name: str = "classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout_rate = config.hidden_dropout_rate if dropout_rate is None else dropout_rate
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
        pooled_BD = self.encoder(inputs, training=training)["pooled_output"]
        return self.classification(pooled_BD, training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "dropout_rate": self.dropout_rate,
        }
