"""Encoder and masked-LM head, with or without a next-sentence head: the models of pretraining."""

import keras
from keras import ops

from bert_keras.architectures import MASKED_LM, PRETRAINER
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.layers.heads import ClassificationHead, MaskedLMHead
from bert_keras.layers.primitives import states_at
from bert_keras.models.task_models import TaskModel


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMaskedLM(TaskModel):
    """Masked words alone (RoBERTa, section 4.2), for records without labels. Call with a dict of
    `input_ids`, `input_mask`, `segment_ids` [B, T] and `masked_lm_positions` [B, P]; returns logits
    `masked_lm` [B, P, V]. Rows that several sequences share: see BertEncoder. Of a causal config it
    is the left-to-right model: the logits are of the piece behind each position.
    """

    architecture = MASKED_LM

    def __init__(self, config: BertConfig, *, name: str = "masked_lm_model", **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.masked_lm = _masked_lm_head(self)
        self.build()

    def call(self, inputs, training=False):
        return self.logits(self.encoder(inputs, training=training), inputs, training=training)

    def logits(self, encoded, inputs, training=False):
        """Returns the logits for the encoder's outputs `encoded` of the same inputs."""
        positions, table = inputs["masked_lm_positions"], self.encoder.token_table
        return {"masked_lm": self.masked_lm(encoded["sequence_output"], positions, table)}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertPretrainer(TaskModel):
    """Section 3.1. Call as BertMaskedLM; returns logits `next_sentence` [B, 2] too (index 1: B is a
    random sentence, as in the records). With `next_sentence_positions` int [B, S], where the [CLS]
    of each sequence of a shared row stands, these are [B, S, 2]. Not for a causal config, whose
    [CLS] attends to itself alone: use BertMaskedLM.
    """

    architecture = PRETRAINER

    def __init__(self, config: BertConfig, *, name: str = "pretrainer", **kwargs):
        if config.is_causal:
            raise InputError(
                "the [CLS] of a causal encoder hears no sentence; pretrain it as a BertMaskedLM"
            )
        super().__init__(config, name=name, **kwargs)
        self.masked_lm = _masked_lm_head(self)
        self.next_sentence = self.head(
            ClassificationHead, 2, dropout_rate=0.0, name="next_sentence"
        )
        self.build()

    def call(self, inputs, training=False):
        return self.logits(self.encoder(inputs, training=training), inputs, training=training)

    def logits(self, encoded, inputs, training=False):
        """Returns the logits for the encoder's outputs `encoded` of the same inputs."""
        hidden_BTD, table = encoded["sequence_output"], self.encoder.token_table
        if "next_sentence_positions" in inputs:
            positions = inputs["next_sentence_positions"]
            pooled_XD = self.encoder.pooler(states_at(hidden_BTD, positions))
            labels_X2 = self.next_sentence(pooled_XD, training=training)
            next_sentence = ops.reshape(labels_X2, (-1, ops.shape(positions)[1], 2))
        else:
            next_sentence = self.next_sentence(encoded["pooled_output"], training=training)
        return {
            "masked_lm": self.masked_lm(hidden_BTD, inputs["masked_lm_positions"], table),
            "next_sentence": next_sentence,
        }


def _masked_lm_head(model: TaskModel) -> MaskedLMHead:
    config = model.config
    return model.head(
        MaskedLMHead,
        config.vocab_size,
        activation=config.activation,
        layer_norm_epsilon=config.layer_norm_epsilon,
        name="masked_lm",
    )
