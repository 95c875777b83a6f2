"""Vectors of the words of a sentence in, vectors that know the words on both sides out."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_keras")
class BiLSTM(keras.layers.Layer):
    """Layers of two LSTMs each, one a direction: [B, W, D] -> [B, W, 2 x units].

    `word_mask`, bool [B, W], is False where a row is padded on its right: such words are passed
    over in both directions and come out as 0. Dropout stands before each layer.
    """

    def __init__(self, units: int, *, num_layers: int, dropout_rate: float, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.num_layers = num_layers
        self.dropout_rate = dropout_rate
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")
        self.directions = [
            keras.layers.Bidirectional(
                keras.layers.LSTM(
                    units, return_sequences=True, dtype=self.dtype_policy, name="lstm"
                ),
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(num_layers)
        ]

    def build(self, vectors_shape, word_mask_shape=None):
        for layer in self.directions:
            layer.build(vectors_shape)
            vectors_shape = layer.compute_output_shape(vectors_shape)
        self.built = True

    def call(self, vectors, word_mask, training=False):
        for layer in self.directions:
            vectors = layer(self.dropout(vectors, training=training), mask=word_mask)
        # Keras' own mask stays behind with what is multiplied: no later layer needs it.
        return vectors * ops.cast(word_mask[..., None], vectors.dtype)

    def compute_output_shape(self, vectors_shape, word_mask_shape=None):
        return (*vectors_shape[:-1], 2 * self.units)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "num_layers": self.num_layers,
            "dropout_rate": self.dropout_rate,
        }
