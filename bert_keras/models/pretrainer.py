"""Encoder, masked-LM head and next-sentence head: the model of pretraining."""

import keras

from bert_keras.config import BertConfig
from bert_keras.heads.classification import ClassificationHead
from bert_keras.heads.masked_lm import MaskedLMHead
from bert_keras.models.task_model import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertPretrainer(TaskModel):
    """Section 3.1. Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T] and
    `masked_lm_positions` [B, P]; returns logits `masked_lm` [B, P, V] and `next_sentence` [B, 2]
    (index 1: B is a random sentence, as in the records).
    """

    def __init__(self, config: BertConfig, *, name: str = "pretrainer", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.masked_lm = MaskedLMHead(
            config.vocab_size,
            activation=config.activation,
            layer_norm_epsilon=config.layer_norm_epsilon,
            initializer_stddev=config.initializer_stddev,
            name="masked_lm",
        )
        self.next_sentence = ClassificationHead(
            2, dropout_rate=0.0, initializer_stddev=config.initializer_stddev, name="next_sentence"
        )
        self.build()

    def build_heads(self):
        size = self.config.hidden_size
        self.masked_lm.build((None, None, size))
        self.next_sentence.build((None, size))

    def call(self, inputs, training=False):
        encoded = self.encoder(inputs, training=training)
        return {
            "masked_lm": self.masked_lm(
                encoded["sequence_output"],
                inputs["masked_lm_positions"],
                self.encoder.token_table,
            ),
            "next_sentence": self.next_sentence(encoded["pooled_output"], training=training),
        }
