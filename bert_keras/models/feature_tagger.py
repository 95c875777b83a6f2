"""The feature-based approach of section 5.3: a frozen encoder under a BiLSTM that tags words."""

import dataclasses
from typing import Any

import keras
from keras import ops

from bert_keras.architectures import FEATURE_TAGGER
from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.feature_layers import feature_layers
from bert_keras.config import BertConfig
from bert_keras.distribution import WholeBatchStep
from bert_keras.layers.bilstm import BiLSTM, LayerMix
from bert_keras.layers.heads import TokenLabelsHead
from bert_keras.layers.primitives import states_at
from bert_keras.models.pretrained import ConfiguredModel
from bert_keras.models.task_models import TaskModel

NUM_LSTM_LAYERS = 2  # section 5.3


@keras.saving.register_keras_serializable(package="bert_keras")
class WordTagger(WholeBatchStep, ConfiguredModel):
    """Layers mixed, a BiLSTM of two layers with `lstm_units` a direction, a dense layer.

    Call with a dict of `features` [B, W, K, D], the K layers of the choice `layers` for the first
    piece of each word, and `word_mask` bool [B, W], False where a row is padded on its right;
    returns logits [B, W, num_labels].
    """

    arguments = ("num_labels", "lstm_units", "dropout_rate")

    def __init__(
        self,
        config: BertConfig,
        *,
        num_labels: int,
        layers: str,
        lstm_units: int,
        dropout_rate: float,
        name: str = "tagger",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        self.config = config
        self.num_labels = num_labels
        self.layer_choice = layers
        self.lstm_units = lstm_units
        self.dropout_rate = dropout_rate
        self.read = feature_layers(layers, num_layers=config.num_layers)
        self.vector_size = self.read.vector_size(config.hidden_size)
        self.layer_mix = None
        if self.read.is_summed:
            self.layer_mix = LayerMix(dtype=self.dtype_policy, name="layer_mix")
        self.bilstm = BiLSTM(
            lstm_units,
            num_layers=NUM_LSTM_LAYERS,
            dropout_rate=dropout_rate,
            dtype=self.dtype_policy,
            name="bilstm",
        )
        self.token_labels = TokenLabelsHead(
            num_labels,
            dropout_rate=dropout_rate,
            initializer_stddev=config.initializer_stddev,
            dtype=self.dtype_policy,
            name="token_labels",
        )

    def build(self, input_shape=None):
        if self.layer_mix is not None:
            self.layer_mix.build((None, None, len(self.read.numbers), self.config.hidden_size))
        self.bilstm.build((None, None, self.vector_size))
        self.token_labels.build((None, None, 2 * self.lstm_units))
        self.built = True

    def call(self, inputs, training=False):
        features_BWKD, word_mask_BW = inputs["features"], inputs["word_mask"]
        if self.layer_mix is not None:
            vectors_BWD = self.layer_mix(features_BWKD)
        else:
            batch, words, *_ = ops.shape(features_BWKD)
            vectors_BWD = ops.reshape(features_BWKD, (batch, words, self.vector_size))
        context_BWD = self.bilstm(vectors_BWD, word_mask_BW, training=training)
        return self.token_labels(context_BWD, training=training)

    def get_config(self):
        return {**super().get_config(), "layers": self.layer_choice}


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

    architecture = FEATURE_TAGGER
    arguments = ("num_labels", "dropout_rate")

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
        self.encoder.trainable = False

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

    def new_card(self):
        """Returns the metadata of a model that comes from no checkpoint."""
        return dataclasses.replace(super().new_card(), task=self._settings())

    def get_config(self):
        return {**super().get_config(), **self._settings()}

    def _settings(self) -> dict[str, Any]:
        return {"layers": self.tagger.layer_choice, "lstm_units": self.tagger.lstm_units}


def features_at(hidden_states, positions_BW, numbers):
    """[B, W, K, D]: the hidden states of the layers `numbers` at the positions."""
    batch, words = ops.shape(positions_BW)
    layers_BTX = ops.concatenate([hidden_states[number] for number in numbers], axis=-1)
    shape = (batch, words, len(numbers), hidden_states[0].shape[-1])
    return ops.reshape(states_at(layers_BTX, positions_BW), shape)
