"""Hidden states in, each with mean 0 and variance 1, scaled and shifted, out."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_keras")
class LayerNorm(keras.layers.LayerNormalization):
    """Ba et al. 2016 over the last axis, weights `gamma` and `beta`, in float32 or wider.

    One pass over memory less than Keras' own form.
    """

    def call(self, inputs):
        x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        scale = ops.rsqrt(variance + self.epsilon) * self.gamma
        return ops.cast(centred * scale + self.beta, self.compute_dtype)
