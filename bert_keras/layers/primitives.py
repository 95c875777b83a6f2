"""Parts that layers share: a base class, projection, GELU, LayerNorm, dropout and gathering."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_keras.layers import Tensor

if IS_JAX := keras.backend.backend() == "jax":
    from bert_keras.layers import jax_ops

# Bias of masked positions, as in the original modeling.py; exp(-10000) is 0 in float32.
PADDING_SCORE = -10_000.0


class BertLayer(keras.layers.Layer):
    """A layer whose arguments Keras records for `get_config`, under every dtype policy.

    Subclasses with weights set `initializer_stddev`, and `has_biases` if they can lack biases, and
    `norm_kind` if their norm can be RMSNorm.

    Arguments of several subclasses, which do not describe them again:
        activation: One of `bert_keras.config.ACTIVATIONS`.
        layer_norm_epsilon: The number that LayerNorm adds to the variance.
        initializer_stddev: The standard deviation of the initial kernels.
        has_biases: Whether the dense layers and LayerNorm have a bias.
        norm_kind: "layer" for LayerNorm or "rms" for RMSNorm.
    """

    initializer_stddev: float
    has_biases = True
    norm_kind = "layer"

    def __new__(cls, *args, dtype=None, **kwargs):
        # Keras' own __new__ records arguments for `get_config`, but only numbers and strings. A
        # dtype policy is neither, and `get_config` adds it itself.
        return super().__new__(cls, *args, **kwargs)

    def _dense(self, name: str, inputs: int, units: int, *, has_bias=None, dtype=None):
        """Builds a dense layer that maps `inputs` to `units`."""
        dense = keras.layers.Dense(
            units,
            use_bias=self.has_biases if has_bias is None else has_bias,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_stddev),
            dtype=dtype or self.dtype_policy,
            name=name,
        )
        dense.build((None, inputs))
        return dense

    def _norm(self, name: str, *, epsilon: float):
        return new_norm(
            self.norm_kind,
            epsilon=epsilon,
            center=self.has_biases,
            dtype=self.dtype_policy,
            name=name,
        )


def activation_function(name: str) -> Callable:
    """Returns the function of one of `bert_keras.config.ACTIVATIONS`, which Keras can serialize."""
    return gelu_tanh if name in ("gelu_tanh", "gelu_new") else keras.activations.get(name)


@keras.saving.register_keras_serializable(package="bert_keras")
def gelu_tanh(x: Tensor):
    """Computes the tanh approximation of GELU."""
    return ops.gelu(x, approximate=True)


def activate(x: Tensor, *, activation: str, training: bool = False):
    """Applies one of `bert_keras.config.ACTIVATIONS` to a tensor of any shape."""
    if activation == "gelu" and training and IS_JAX and x.dtype.itemsize == 2:
        return jax_ops.gelu(x)
    if activation == "gelu" and training and hasattr(ops, "erfc"):  # Keras 3.15 or newer
        return _gelu(x)
    return activation_function(activation)(x)


@ops.custom_gradient
def _gelu(x):
    """Computes GELU, with a gradient that needs fewer passes over memory than in `ops.gelu`."""
    # With u = -x / sqrt(2), gelu(x) is x erfc(u) / 2, and its derivative is
    # erfc(u) / 2 - u exp(-u^2) / sqrt(pi).
    u = x * -math.sqrt(0.5)
    probability = 0.5 * ops.erfc(u)

    def gradient(upstream):
        density = u * ops.exp(-ops.square(u)) * (1 / math.sqrt(math.pi))
        return upstream * (probability - density)

    return x * probability, gradient


@keras.saving.register_keras_serializable(package="bert_keras")
class LayerNorm(keras.layers.LayerNormalization):
    """LayerNorm over the last axis (Ba et al. 2016), computed in float32 or wider.

    It reads the memory once less than Keras' own layer.
    """

    def call(self, inputs: Tensor):
        x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        # Under a policy such as bfloat16 the weights are narrower than float32.
        x = centred * (ops.rsqrt(variance + self.epsilon) * ops.cast(self.gamma, x.dtype))
        if self.center:
            x = x + ops.cast(self.beta, x.dtype)
        return ops.cast(x, self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class RMSNorm(keras.layers.LayerNormalization):
    """RMSNorm over the last axis (Zhang and Sennrich 2019), computed in float32 or wider."""

    def call(self, inputs: Tensor):
        x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        scale = ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + self.epsilon)
        return ops.cast(x * scale * ops.cast(self.gamma, x.dtype), self.compute_dtype)


def new_norm(kind: str, *, center: bool, **options: Any) -> LayerNorm | RMSNorm:
    """Returns a LayerNorm, with a bias if `center`, or for the kind "rms" an RMSNorm."""
    if kind == "rms":
        return RMSNorm(center=False, **options)
    return LayerNorm(center=center, **options)


@keras.saving.register_keras_serializable(package="bert_keras")
class Dropout(keras.layers.Dropout):
    """Dropout that draws 16 random bits for each value, in half the time of Keras' own layer.

    The rate is rounded to a multiple of 1/65536. With JAX, `jax_ops.drop` computes it.
    """

    def call(self, inputs: Tensor, training: bool = False):
        if not training or self.noise_shape or not self.rate:
            return super().call(inputs, training=training)
        if self.rate == 1:
            return ops.zeros_like(inputs)
        if IS_JAX:
            return jax_ops.drop(inputs, self.seed_generator.next(), self.rate)
        *rows, size = ops.shape(inputs)
        num_pairs = (size + 1) // 2
        # An int32 has the bits of two values. The last axis has the size 1, because Keras cannot
        # split a last axis of unknown size.
        pairs = keras.random.randint(
            (*rows, num_pairs, 1), -(2**31), 2**31 - 1, seed=self.seed_generator
        )
        # Viewed as float32, because TensorFlow reshapes int32 in host memory.
        bits = ops.view(ops.view(pairs, "float32"), "int16")
        bits = ops.reshape(bits, (*rows, 2 * num_pairs))[..., :size]
        num_dropped = min(round(self.rate * 2**16), 2**16 - 1)  # of the 2^16 values of an int16
        is_kept = ops.cast(bits >= num_dropped - 2**15, inputs.dtype)
        return inputs * (is_kept * (2**16 / (2**16 - num_dropped)))


def softmax(scores: Tensor):
    """Softmax over the last axis; `ops.softmax` warns if that axis has one position."""
    return 1.0 + 0.0 * scores if scores.shape[-1] == 1 else ops.softmax(scores)


def states_at(hidden_BTD: Tensor, positions_BP: Tensor):
    """Gathers the hidden states [X, D] at positions [B, P], X = B x P in row-major order."""
    batch, length, _ = ops.shape(hidden_BTD)
    first_row_B1 = ops.expand_dims(ops.arange(batch, dtype="int32") * length, axis=1)
    rows_X = ops.reshape(ops.cast(positions_BP, "int32") + first_row_B1, (-1,))
    return ops.take(ops.reshape(hidden_BTD, (-1, hidden_BTD.shape[-1])), rows_X, axis=0)
