"""Defines `Bfloat16`, a model whose graphs compute in bfloat16."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_keras.distribution.numerics import processor_has_bfloat16
from bert_keras.errors import InputError


@contextlib.contextmanager
def replaced_calls(calls: Sequence[tuple[keras.Layer, Callable]]) -> Iterator[None]:
    """Replaces the `call` of layers by functions while a graph is traced."""
    for layer, function in calls:
        layer.call = function
    try:
        yield
    finally:
        for layer, _ in calls:
            del layer.call


@contextlib.contextmanager
def replaced_attributes(objects: Sequence, **attributes: Any) -> Iterator[None]:
    """Replaces attributes of objects while a graph is traced."""
    pairs = [(each, name) for each in objects for name in attributes]
    before = [getattr(*pair) for pair in pairs]
    for each, name in pairs:
        setattr(each, name, attributes[name])
    try:
        yield
    finally:
        for (each, name), value in zip(pairs, before, strict=True):
            setattr(each, name, value)


class Bfloat16:
    """Wraps a float32 model for the graphs of an export; other attributes are the model's.

    The blocks of the encoder compute in bfloat16, with kernels stored in bfloat16. Matrix products
    accumulate in float32; LayerNorms, embeddings and heads are computed in float32.

    Attributes:
        stored: The variables that a SavedModel stores for these graphs.
    """

    def __init__(self, model: keras.Model):
        if not processor_has_bfloat16():
            raise InputError("this processor has no bfloat16 instructions; choose another variant")
        self.model, self.calls = model, []
        for block in model.encoder.blocks:
            heads = (block.attention.query_dense, block.attention.key_dense)
            heads += (block.attention.value_dense, block.attention.output_dense)
            feed_forward = (block.feed_forward.intermediate_dense, block.feed_forward.output_dense)
            self.calls += [(layer, _Bfloat16Dense(layer)) for layer in (*heads, *feed_forward)]
        replaced = {id(weight) for layer, _ in self.calls for weight in layer.weights}
        self.stored = [each.value for each in model.weights if id(each) not in replaced]
        self.stored += [weight for _, dense in self.calls for weight in dense.weights]

    def __getattr__(self, name: str):
        return getattr(self.model, name)

    def __call__(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> Any:
        blocks = self.model.encoder.blocks
        # In a post-norm block, the second LayerNorm computes the output of the encoder.
        norms = [block.feed_forward_norm for block in blocks]
        layers = [each for block in blocks for each in block._flatten_layers() if each not in norms]
        # The bfloat16 product has already rounded the scores, and oneDNN's bfloat16 softmax
        # computes in float32 internally, so float32 scores would gain nothing.
        attentions = [block.attention for block in blocks]
        with (
            replaced_calls(self.calls),
            replaced_attributes(layers, dtype_policy="bfloat16"),
            replaced_attributes(attentions, score_dtype="bfloat16"),
        ):
            return self.model(inputs, training=False)


class _Bfloat16Dense:
    """A dense layer that maps bfloat16 [X,D] to bfloat16 [X,F]."""

    def __init__(self, layer: keras.layers.Dense):
        weights = [layer.kernel, layer.bias] if layer.bias is not None else [layer.kernel]
        self.weights = [tf.Variable(tf.cast(w, tf.bfloat16), trainable=False) for w in weights]

    def __call__(self, x_XD: tf.Tensor, training: bool = False) -> tf.Tensor:
        kernel_DF, *bias_F = self.weights
        product_XF: Any = tf.matmul(x_XD, kernel_DF)
        # oneDNN fuses the product with a bias_add and a further operation, not with an addition.
        return tf.nn.bias_add(product_XF, bias_F[0]) if bias_F else product_XF
