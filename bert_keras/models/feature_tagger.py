"""A frozen encoder under a BiLSTM that tags words: the feature-based approach of section 5.3."""

import os
from pathlib import Path

import keras
from keras import ops

from bert_keras.checkpoints.card import ModelCard, numbered_labels
from bert_keras.config import BertConfig
from bert_keras.layers.positions import states_at
from bert_keras.models.task_model import TaskModel
from bert_keras.models.word_tagger import WordTagger


@keras.saving.register_keras_serializable(package="bert_keras")
class BertFeatureTagger(TaskModel):
    """Call with a dict of `input_ids`, `input_mask`, `segment_ids` [B, T] and `word_positions` int
    [B, W], where the first piece of each word stands, 0 on the right of the last; returns logits
    [B, W, num_labels].

    The encoder is not trained and never drops out; `tagger` is the part that is trained, from the
    `features` of the encoder. `layers`: one of LAYER_CHOICES. "768-dimensional" is taken to be
    `lstm_units` of each direction, which the paper leaves open; 384 is the other reading.
    `dropout_rate` is the tagger's, the config's unless given.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        layers: str,
        lstm_units: int,
        dropout_rate: float | None = None,
        name: str = "feature_tagger",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout_rate = config.hidden_dropout_rate if dropout_rate is None else dropout_rate
        self.tagger = WordTagger(
            config,
            num_labels=num_labels,
            layers=layers,
            lstm_units=lstm_units,
            dropout_rate=self.dropout_rate,
            dtype=self.dtype_policy,
            name="tagger",
        )
        self.build()

    def build_heads(self):
        self.encoder.trainable = False  # reaches weights that are there: those made later train
        self.tagger.build()

    def features(self, inputs: dict):
        """[B, W, K, D], the first piece of each word in each layer of the choice."""
        hidden_states = self.encoder.states(inputs, training=False).hidden_states
        return features_at(hidden_states, inputs["word_positions"], self.tagger.read.numbers)

    def call(self, inputs, training=False):
        word_mask_BW = ops.greater(inputs["word_positions"], 0)
        given = {"features": self.features(inputs), "word_mask": word_mask_BW}
        return self.tagger(given, training=training)

    @classmethod
    def from_card(cls, card: ModelCard):
        return cls(
            card.config,
            num_labels=len(card.labels),
            layers=card.task["layers"],
            lstm_units=card.task["lstm_units"],
        )

    def save_pretrained(self, path: str | os.PathLike, **options) -> Path:
        if self.card is None:
            self.card = ModelCard(
                model=type(self).__name__,
                config=self.config,
                lowercase=True,
                max_length=self.config.max_positions,
                labels=numbered_labels(self.num_labels),
                task={"layers": self.tagger.layer_choice, "lstm_units": self.tagger.lstm_units},
            )
        return super().save_pretrained(path, **options)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "layers": self.tagger.layer_choice,
            "lstm_units": self.tagger.lstm_units,
            "dropout_rate": self.dropout_rate,
        }


def features_at(hidden_states, positions_BW, numbers):
    """[B, W, K, D]: what stands at the positions in the hidden states of these numbers."""
    batch, words = ops.shape(positions_BW)
    return ops.stack(
        [
            ops.reshape(
                states_at(hidden_states[number], positions_BW),
                (batch, words, hidden_states[number].shape[-1]),
            )
            for number in numbers
        ],
        axis=2,
    )
