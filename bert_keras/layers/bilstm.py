"""Layers over the words of a sentence: a bidirectional LSTM and a learned mix of encoder layers."""

from functools import partial

import keras
from keras import ops

from bert_keras.layers import Tensor
from bert_keras.layers.primitives import BertLayer, Dropout, softmax


@keras.saving.register_keras_serializable(package="bert_keras")
class BiLSTM(BertLayer):
    """A stack of bidirectional LSTM layers with dropout before each layer.

    Args:
        units: The number of units of each direction.

    Call arguments:
        vectors: [B, W, D].
        word_mask: Bool [B, W], False for padding, which must be on the right. Both directions skip
            padded words, and their output is 0.

    Returns:
        [B, W, 2 x units].
    """

    def __init__(self, units: int, *, num_layers: int, dropout_rate: float, **kwargs):
        super().__init__(**kwargs)
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")
        lstm = partial(keras.layers.LSTM, units, return_sequences=True, name="lstm")
        policy = {"dtype": self.dtype_policy}
        self.directions = [
            keras.layers.Bidirectional(lstm(**policy), name=f"layer_{index}", **policy)
            for index in range(num_layers)
        ]

    def build(self, vectors_shape: tuple):
        for layer in self.directions:
            layer.build(vectors_shape)
            vectors_shape = layer.compute_output_shape(vectors_shape)

    def call(self, vectors: Tensor, word_mask: Tensor, training: bool = False):
        for layer in self.directions:
            vectors = layer(self.dropout(vectors, training=training), mask=word_mask)
        # The product drops Keras' own mask, which no later layer needs.
        return vectors * ops.cast(word_mask[..., None], vectors.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class LayerMix(BertLayer):
    """Learned weighted sum of K encoder layers, [B, W, K, D] to [B, W, D]; initially their mean.

    It is scale x sum_k softmax(layer_logits)_k x layer k (Peters et al. 2018, equation 1).
    """

    def build(self, features_shape: tuple):
        shape = (features_shape[-2],)
        self.layer_logits = self.add_weight(name="layer_logits", shape=shape, initializer="zeros")
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def call(self, features: Tensor):
        weights_K1 = ops.expand_dims(softmax(self.layer_logits) * self.scale, axis=-1)
        return ops.sum(features * weights_K1, axis=-2)
