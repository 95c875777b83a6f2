"""Several layers' vectors of a word in, one vector out: their sum under learned weights."""

import keras
from keras import ops


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

    def compute_output_shape(self, features_shape):
        return (*features_shape[:-2], features_shape[-1])
