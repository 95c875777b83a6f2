"""Layers over the words of a sentence: a bidirectional LSTM and a learned mix of layers."""

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


@keras.saving.register_keras_serializable(package="bert_keras")
class LayerMix(keras.layers.Layer):
    """scale x sum_k softmax(layer_logits)_k x layer k: [B, W, K, D] -> [B, W, D].

    Section 5.3 weighs layers and does not say how; this is how ELMo does (Peters et al. 2018,
    equation 1). It begins as the mean.
    """

    def build(self, features_shape):
        count = features_shape[-2]
        self.layer_logits = self.add_weight(
            name="layer_logits", shape=(count,), initializer="zeros"
        )
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")
        self.built = True

    def call(self, features):
        weights_K1 = ops.expand_dims(ops.softmax(self.layer_logits) * self.scale, axis=-1)
        return ops.sum(features * weights_K1, axis=-2)
