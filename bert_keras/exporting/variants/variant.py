"""Defines `Variant`, a model whose graphs are smaller or faster, and two variants of 16 bits."""

import abc
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from bert_keras.distribution.numerics import processor_has_bfloat16
from bert_keras.errors import check
from bert_keras.layers.attention import SelfAttention


class Variant(abc.ABC):
    """Replaces a float32 model in traced graphs; eager calls use the model itself.

    Other attributes are those of the model.
    """

    saves: ClassVar[str]  # "size" or "time": what the variant reduces, compared with float32
    stored: list  # the variables and resources that a SavedModel stores for these graphs

    def __init__(self, model: keras.Model):
        self.model = model

    def __getattr__(self, name: str):
        return getattr(self.model, name)

    def __call__(self, inputs, training: bool = False):
        if tf.executing_eagerly():
            return self.model(inputs, training=training)
        return self.traced(inputs)

    @abc.abstractmethod
    def traced(self, inputs):
        """Adds the variant's ops to the graph that is being traced, and returns the outputs."""


@contextlib.contextmanager
def replaced_calls(calls: Iterable[tuple[keras.Layer, Callable]]) -> Iterator[None]:
    """Replaces the `call` of layers by functions while a graph is traced."""
    calls = [*calls]
    for layer, function in calls:
        layer.call = function
    try:
        yield
    finally:
        for layer, _ in calls:
            del layer.call


@contextlib.contextmanager
def replaced_attributes(objects: Sequence, **attributes) -> Iterator[None]:
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


def dense_layers(block) -> list:
    """Returns the dense layers of a block of the encoder."""
    names = ("query", "key", "value", "output")
    of_attention = [getattr(block.attention, f"{name}_dense") for name in names]
    return [*of_attention, block.feed_forward.intermediate_dense, block.feed_forward.output_dense]


def swap_heads(x):
    """Transposes bfloat16 [B,T,N,H] to [B,N,T,H], and back.

    As integers, because oneDNN transposes floats and takes several times as long for few tokens.
    """
    return tf.bitcast(SelfAttention.swap_heads(tf.bitcast(x, tf.int16)), tf.bfloat16)


class Float16(Variant):
    """Stores the weights as float16, which halves the size.

    The server casts the weights to float32 once, when it loads the model. With a cast before each
    matrix product, a short text took 1.6 times as long as with float32.

    Weights in `others` are not stored, because the graphs do not read them.
    """

    saves = "size"

    def __init__(self, model, *, others: Iterable[keras.Variable] = ()):
        super().__init__(model)
        others = {id(weight) for weight in others}
        self.read_weights = [weight for weight in model.weights if id(weight) not in others]
        self.resources = [_Float16Weight(each.numpy(), each.path) for each in self.read_weights]
        self.stored = [*self.resources, *(resource.variable for resource in self.resources)]

    def traced(self, inputs):
        values = [resource.read() for resource in self.resources]
        mapping = [*zip(self.read_weights, values, strict=True)]
        with keras.StatelessScope(state_mapping=mapping):
            return self.model(inputs, training=False)


class _Float16Weight(tf.saved_model.experimental.TrackableResource):
    """A float32 resource that the initializer of a SavedModel fills from a float16 variable."""

    def __init__(self, array, path: str):
        super().__init__()
        self.variable = tf.Variable(array.astype("float16"), trainable=False)
        self.shape = array.shape
        # Models in one process share resources of the same name, so the name contains a hash of the
        # values.
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

    Products are added, and LayerNorms, embeddings and heads computed, in float32.

    Raises:
        InputError: The processor has no instructions for products in bfloat16.
    """

    saves = "time"

    def __init__(self, model):
        check(
            processor_has_bfloat16(),
            "this processor does not multiply bfloat16, as processors with AVX512-BF16 or AMX do; "
            "choose another variant",
        )
        layers = [layer for block in model.encoder.blocks for layer in dense_layers(block)]
        super().__init__(model, others=[weight for layer in layers for weight in layer.weights])
        self.calls = [(layer, _Bfloat16Dense(layer)) for layer in layers]
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


class _Bfloat16Dense:
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
