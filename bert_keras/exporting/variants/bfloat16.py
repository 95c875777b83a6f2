"""Defines the bfloat16 variant, which computes the blocks of the encoder in bfloat16.

Products are added, and LayerNorms, embeddings and heads computed, in float32.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.distribution.numerics import processor_has_bfloat16
from bert_keras.errors import InputError
from bert_keras.exporting.variants.variant import Float16, dense_layers, replaced_calls

# TensorFlow's fused LayerNorm has this epsilon, whatever the epsilon of the graph is (2.21).
_FUSED_EPSILON = 1e-3


class Bfloat16(Float16):
    """Computes the blocks of the encoder in bfloat16; other weights are stored as float16.

    Args:
        model: A Keras model with an `encoder`.

    Raises:
        InputError: The processor has no instructions for products in bfloat16.
    """

    saves = "time"

    def __init__(self, model):
        if not processor_has_bfloat16():
            raise InputError(
                "this processor does not multiply bfloat16, as processors with AVX512-BF16 or AMX "
                "do; choose another variant"
            )
        blocks = model.encoder.blocks
        super().__init__(model, others=[weight for block in blocks for weight in block.weights])
        dense = [(layer, _Dense(layer)) for block in blocks for layer in dense_layers(block)]
        self.calls: list = list(dense)
        for block in blocks:
            # The second LayerNorm of a post-norm block computes the output of the encoder.
            norms = ((block.attention_norm, "bfloat16"), (block.feed_forward_norm, "float32"))
            self.calls += [(norm, _Norm(norm, dtype=dtype)) for norm, dtype in norms if norm]
        self.stored += [weight for _, each in dense for weight in each.weights]

    def traced(self, inputs):
        with replaced_calls(self.calls), _bfloat16(self.model.encoder.blocks):
            return super().traced(inputs)


@contextlib.contextmanager
def _bfloat16(blocks: Sequence) -> Iterator[None]:
    """Makes blocks compute in bfloat16 while a graph is traced.

    The products of attention have rounded the scores to bfloat16, and oneDNN's softmax in bfloat16
    computes in float32, so a softmax in float32 is not more exact.
    """
    policies = {each: each.dtype_policy for block in blocks for each in block._flatten_layers()}
    for layer in policies:
        layer.dtype_policy = "bfloat16"
    for block in blocks:
        block.attention.score_dtype = "bfloat16"
    try:
        yield
    finally:
        for layer, policy in policies.items():
            layer.dtype_policy = policy
        for block in blocks:
            block.attention.score_dtype = None


class _Dense:
    """A dense layer that maps bfloat16 [X,D] to bfloat16 [X,F]."""

    def __init__(self, layer):
        self.weights = [
            tf.Variable(tf.cast(weight, tf.bfloat16), trainable=False)
            for weight in (layer.kernel, layer.bias)
            if weight is not None
        ]

    def __call__(self, x_XD, training=False):
        kernel_DF, *bias_F = self.weights
        product_XF: Any = tf.matmul(x_XD, kernel_DF)
        # oneDNN fuses the product with a bias_add and a further operation, not with an addition.
        return tf.nn.bias_add(product_XF, bias_F[0]) if bias_F else product_XF


class _Norm:
    """A LayerNorm in the form that TensorFlow fuses: gamma and beta are constants.

    It computes LayerNorm(x; epsilon) as LayerNorm(scale * x; _FUSED_EPSILON), which is the same for
    scale^2 = _FUSED_EPSILON / epsilon.
    """

    def __init__(self, layer, *, dtype: str):
        self.dtype = dtype
        self.scale = math.sqrt(_FUSED_EPSILON / layer.epsilon)
        self.gamma = layer.gamma.numpy()
        self.beta = layer.beta.numpy() if layer.center else 0 * self.gamma

    def __call__(self, x_XD):
        x_XD = tf.cast(x_XD, tf.float32) * self.scale
        mean_X1 = tf.reduce_mean(x_XD, axis=1, keepdims=True)
        squares_XD = tf.math.squared_difference(x_XD, mean_X1)
        variance_X1 = tf.reduce_mean(squares_XD, axis=1, keepdims=True)
        factor_XD = tf.math.rsqrt(variance_X1 + _FUSED_EPSILON) * self.gamma
        normed_XD = x_XD * factor_XD + (self.beta - mean_X1 * factor_XD)
        return tf.cast(normed_XD, self.dtype)
