"""Defines the bfloat16 variant, which computes the blocks of the encoder in bfloat16.

Products are added, and LayerNorms, embeddings and heads computed, in float32.
"""

from typing import Any

import tensorflow as tf

from bert_keras.distribution.numerics import processor_has_bfloat16
from bert_keras.errors import InputError
from bert_keras.exporting.variants.variant import (
    Float16,
    dense_layers,
    replaced_attributes,
    replaced_calls,
    swap_heads,
)


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
        layers = [layer for block in blocks for layer in dense_layers(block)]
        super().__init__(model, others=[weight for layer in layers for weight in layer.weights])
        self.calls = [(layer, _Dense(layer)) for layer in layers]
        self.stored += [weight for _, dense in self.calls for weight in dense.weights]

    def traced(self, inputs):
        blocks = self.model.encoder.blocks
        # In a post-norm block, the second LayerNorm computes the output of the encoder.
        layers = [
            layer
            for block in blocks
            for layer in block._flatten_layers()
            if layer is not block.feed_forward_norm
        ]
        # The products of attention have rounded the scores, and oneDNN's softmax of bfloat16
        # computes in float32, so float32 scores are not more exact.
        attentions = [block.attention for block in blocks]
        with (
            replaced_calls(self.calls),
            replaced_attributes(layers, dtype_policy="bfloat16"),
            replaced_attributes(attentions, score_dtype="bfloat16", swap_heads=swap_heads),
        ):
            return super().traced(inputs)


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
