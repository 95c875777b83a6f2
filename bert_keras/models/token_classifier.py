"""Encoder under a token-labels head: one label for every token of a sentence."""

import keras

from bert_keras.config import BertConfig
from bert_keras.layers.token_labels import TokenLabelsHead
from bert_keras.models.task_model import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertTokenClassifier(TaskModel):
    """Section 5.3, NER. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T];
    returns logits [B, T, num_labels]. `dropout_rate` is the head's own, the encoder's unless given.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        dropout_rate: float | None = None,
        name: str = "token_classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout_rate = config.hidden_dropout_rate if dropout_rate is None else dropout_rate
        self.token_labels = TokenLabelsHead(
            num_labels,
            dropout_rate=self.dropout_rate,
            initializer_stddev=config.initializer_stddev,
            dtype=self.dtype_policy,
            name="token_labels",
        )
        self.build()

    def build_heads(self):
        self.token_labels.build((None, None, self.config.hidden_size))

    def call(self, inputs, training=False):
        hidden_BTD = self.encoder(inputs, training=training)["sequence_output"]
        return self.token_labels(hidden_BTD, training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "dropout_rate": self.dropout_rate,
        }
