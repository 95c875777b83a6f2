"""The feature-based tagger (Devlin et al. 2018, section 5.3): a BiLSTM over a frozen encoder."""

import dataclasses
from typing import Any

import keras
from keras import ops

from bert_keras.config import BertConfig, ModelMetadata, feature_layers
from bert_keras.distribution.model import GlobalBatchModel
from bert_keras.errors import check_count
from bert_keras.kinds.tagger import FeatureTagger
from bert_keras.layers import Tensor
from bert_keras.layers.bilstm import BiLSTM, LayerMix
from bert_keras.layers.heads import TokenLabelsHead
from bert_keras.layers.primitives import states_at
from bert_keras.models.pretrained import ConfiguredModel
from bert_keras.models.task_models import TaskModel

NUM_LSTM_LAYERS = 2  # "a two-layer 768-dimensional BiLSTM" (Devlin et al. 2018, section 5.3)


@keras.saving.register_keras_serializable(package="bert_keras")
class WordTagger(GlobalBatchModel, ConfiguredModel):
    """The trained part of a `BertFeatureTagger`: combines layers, then a BiLSTM and a dense layer.

    Args:
        layers: Which hidden states to combine, and how; see `feature_layers`.
        dropout_rate: Dropout before each layer of the BiLSTM and before the dense layer.

    Call arguments:
        inputs: A dict of `features` float [B, W, K, D], the hidden states of the first subword of
            each word in the K chosen layers, and `word_mask` bool [B, W], False for padding, which
            must follow the words of a row.

    Returns:
        Logits [B, W, num_labels].
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
        self.feature_layers = feature_layers(layers, num_layers=config.num_layers)
        self.vector_size = config.hidden_size
        self.layer_mix = None
        if layers.startswith("weighted-sum"):
            self.layer_mix = LayerMix(dtype=self.dtype_policy, name="layer_mix")
        else:
            self.vector_size *= len(self.feature_layers)
        options = {"dropout_rate": dropout_rate, "dtype": self.dtype_policy}
        self.bilstm = BiLSTM(lstm_units, num_layers=NUM_LSTM_LAYERS, name="bilstm", **options)
        options["initializer_stddev"] = config.initializer_stddev
        self.token_labels = TokenLabelsHead(num_labels, name="token_labels", **options)

    def build(self, input_shape: tuple | None = None):
        if self.layer_mix is not None:
            self.layer_mix.build((None, None, len(self.feature_layers), self.config.hidden_size))
        self.bilstm.build((None, None, self.vector_size))
        self.token_labels.build((None, None, 2 * self.lstm_units))

    def call(self, inputs: dict, training: bool = False):
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
    """Labels words with a BiLSTM over the frozen hidden states of an encoder.

    Args:
        config: The hyperparameters of the encoder.
        num_labels: The number of labels.
        layers: The choice of layers, a key of `LAYER_CHOICES`, such as "concat-last-four".
        lstm_units: The units of each direction of the BiLSTM. The paper's "768-dimensional" may
            mean 768 or 384.
        dropout_rate: Dropout of the tagger; by default `config.dropout_of_heads`.
        name: The name of the Keras model.

    Call arguments:
        inputs: A dict of `input_ids`, `input_mask` and `segment_ids`, int [B, T], and
            `word_positions` int [B, W]: the position of the first subword of each word, padded
            with 0.

    Returns:
        Logits [B, W, num_labels].

    Example:

    ```python
    model = BertFeatureTagger(
        preset("tiny", vocab_size=4_000), num_labels=9, layers="last", lstm_units=64
    )
    ```
    """

    kind = FeatureTagger
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
        check_count("lstm_units", lstm_units or 0)
        self.num_labels = num_labels
        self.dropout_rate = config.dropout_of_heads if dropout_rate is None else dropout_rate
        settings = {"num_labels": num_labels, "layers": layers, "lstm_units": lstm_units}
        settings |= {"dropout_rate": self.dropout_rate, "dtype": self.dtype_policy}
        self.tagger = WordTagger(config, name="tagger", **settings)
        self.build()
        self.encoder.trainable = False

    def features(self, inputs: dict):
        """Returns the hidden states [B, W, K, D] of the first subwords in the chosen layers."""
        hidden_states = self.encoder.states(inputs, training=False).hidden_states
        return features_at(hidden_states, inputs["word_positions"], self.tagger.feature_layers)

    def call(self, inputs: dict, training: bool = False):
        word_mask_BW = ops.greater(inputs["word_positions"], 0)
        features = {"features": self.features(inputs), "word_mask": word_mask_BW}
        return self.tagger(features, training=training)

    @classmethod
    def from_metadata(cls, metadata: ModelMetadata, **options):
        settings = {name: metadata.task.get(name) for name in ("layers", "lstm_units")}
        return super().from_metadata(metadata, **settings, **options)

    def new_metadata(self):
        return dataclasses.replace(super().new_metadata(), task=self._settings())

    def get_config(self):
        return {**super().get_config(), **self._settings()}

    def _settings(self) -> dict[str, Any]:
        return {"layers": self.tagger.layer_choice, "lstm_units": self.tagger.lstm_units}


def features_at(hidden_states: Any, positions_BW: Tensor, indices: Any):
    """Returns the hidden states [B, W, K, D] of K layers at W positions of each sequence."""
    batch, words = ops.shape(positions_BW)
    layers_BTX = ops.concatenate([hidden_states[index] for index in indices], axis=-1)
    shape = (batch, words, len(indices), hidden_states[0].shape[-1])
    return ops.reshape(states_at(layers_BTX, positions_BW), shape)
