"""Shared parts of the layers: dense projection, activation, LayerNorm, states at positions."""

import keras
from keras import ops


def projection(layer, name: str, *, inputs: int, units: int, dtype=None) -> keras.layers.Dense:
    """Builds a dense layer as a part of `layer`, whose `initializer_stddev` and precision it takes.

    The kernel is drawn from a normal distribution cut at two deviations; the biases are 0.
    """
    dense = keras.layers.Dense(
        units,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=layer.initializer_stddev),
        dtype=dtype or layer.dtype_policy,
        name=name,
    )
    dense.build((None, inputs))
    return dense


def activate(x, *, activation: str):
    """One of `bert_keras.config.ACTIVATIONS`, applied to a tensor of any shape."""
    if activation == "gelu":
        return ops.gelu(x, approximate=False)
    if activation == "gelu_tanh":
        return ops.gelu(x, approximate=True)
    return keras.activations.get(activation)(x)


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


def states_at(hidden_BTD, positions_BP):
    """[X, D] with X = B x P, row after row; two dimensions suit the dense layer that follows."""
    batch, length, _ = ops.shape(hidden_BTD)
    first_row_B1 = ops.expand_dims(ops.arange(batch, dtype="int32") * length, axis=1)
    rows_X = ops.reshape(ops.cast(positions_BP, "int32") + first_row_B1, (-1,))
    return ops.take(ops.reshape(hidden_BTD, (-1, hidden_BTD.shape[-1])), rows_X, axis=0)


def last_places(input_mask_BT):
    """int32 [B, 1]: where the last token stands that is not padding; 0 where all is."""
    places_T = ops.arange(ops.shape(input_mask_BT)[1], dtype="int32")
    is_real_BT = ops.cast(ops.cast(input_mask_BT, "bool"), "int32")
    return ops.max(is_real_BT * places_T, axis=1, keepdims=True)
