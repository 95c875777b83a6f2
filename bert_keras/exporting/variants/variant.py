"""Defines `Variant`, a model whose graphs are smaller or faster, and variants of 16 bits."""

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_keras.distribution.numerics import processor_has_bfloat16
from bert_keras.errors import InputError

Inputs = Mapping[str, tf.Tensor]  # int32 [B,T], or [B,C,T] of a multiple choice model


class Variant:
    """Wraps a float32 model for the graphs of an export; other attributes are the model's."""

    stored: list  # the variables and resources that a SavedModel stores for these graphs

    def __init__(self, model: keras.Model):
        self.model = model

    def __getattr__(self, name: str):
        return getattr(self.model, name)


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


def dense_layers(block: Any) -> list:
    """Returns the dense layers of a block of the encoder."""
    attention, feed_forward = block.attention, block.feed_forward
    heads = [attention.query_dense, attention.key_dense, attention.value_dense]
    others = [attention.output_dense, feed_forward.intermediate_dense, feed_forward.output_dense]
    return [*heads, *others]


class Float16(Variant):
    """Stores the weights except `excluded` as float16, which halves the size.

    The server casts the weights to float32 once, when it loads the model. With a cast before each
    matrix product, a short text took 1.6 times as long as with float32.
    """

    def __init__(self, model: keras.Model, *, excluded: Iterable[keras.Variable] = ()):
        super().__init__(model)
        excluded_ids = {id(weight) for weight in excluded}
        self.read_weights = [weight for weight in model.weights if id(weight) not in excluded_ids]
        self.resources = [_Float16Weight(each.numpy(), each.path) for each in self.read_weights]
        self.stored = [*self.resources, *(resource.variable for resource in self.resources)]

    def __call__(self, inputs: Inputs, training: bool = False) -> Any:
        values = [resource.read() for resource in self.resources]
        mapping = [*zip(self.read_weights, values, strict=True)]
        with keras.StatelessScope(state_mapping=mapping):
            return self.model(inputs, training=False)


class _Float16Weight(tf.saved_model.experimental.TrackableResource):
    """A float32 resource that the initializer of a SavedModel fills from a float16 variable."""

    def __init__(self, array: Any, path: str):
        super().__init__()
        self.variable = tf.Variable(array.astype("float16"), trainable=False)
        self.shape = array.shape
        # Models in one process share resources of the same name, so it contains a hash.
        self.name = f"{path}-{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self.shape, shared_name=self.name)

    def _initialize(self):
        value = tf.cast(self.variable.read_value(), tf.float32)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)

    def read(self) -> tf.Tensor:
        return tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)


class Bfloat16(Float16):
    """Computes the blocks of the encoder in bfloat16; other weights are stored as float16.

    Matrix products accumulate in float32; LayerNorms, embeddings and heads are computed in float32.
    """

    def __init__(self, model: keras.Model):
        if not processor_has_bfloat16():
            raise InputError("this processor has no bfloat16 instructions; choose another variant")
        layers = [layer for block in model.encoder.blocks for layer in dense_layers(block)]
        super().__init__(model, excluded=[weight for layer in layers for weight in layer.weights])
        self.calls = [(layer, _Bfloat16Dense(layer)) for layer in layers]
        self.stored += [weight for _, dense in self.calls for weight in dense.weights]

    def __call__(self, inputs: Inputs, training: bool = False) -> Any:
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
            return super().__call__(inputs)


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
