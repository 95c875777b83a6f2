"""Features of words in, logits over labels for every word out: what Table 7 trains."""

import keras
from keras import ops

from bert_keras.checkpoints.feature_layers import feature_layers
from bert_keras.config import BertConfig
from bert_keras.distribution import WholeBatchStep
from bert_keras.layers.bilstm import BiLSTM
from bert_keras.layers.layer_mix import LayerMix
from bert_keras.layers.token_labels import TokenLabelsHead

NUM_LSTM_LAYERS = 2  # section 5.3


@keras.saving.register_keras_serializable(package="bert_keras")
class WordTagger(WholeBatchStep, keras.Model):
    """Layers mixed, a BiLSTM of two layers with `lstm_units` a direction, a dense layer.

    Call with a dict of `features` [B, W, K, D], the K layers of the choice `layers` for the first
    piece of each word, and `word_mask` bool [B, W], False where a row is padded on its right;
    returns logits [B, W, num_labels].
    """

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
        return {
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": self.config.to_dict(),
            "num_labels": self.num_labels,
            "layers": self.layer_choice,
            "lstm_units": self.lstm_units,
            "dropout_rate": self.dropout_rate,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(BertConfig.from_dict(config.pop("config")), **config)
