"""Defines `Variant`, a model whose graphs are smaller or faster, and the variant `Float16`."""

import abc
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

import keras
import tensorflow as tf

from bert_keras.layers.attention import SelfAttention


class Variant(abc.ABC):
    """Replaces a Keras model in traced graphs; eager calls use the model itself.

    Other attributes are those of the model.

    Args:
        model: The float32 model.
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
        """Adds the variant's ops to the graph that is being traced.

        Args:
            inputs: The inputs of the model.

        Returns:
            The outputs of the model.
        """


@contextlib.contextmanager
def replaced_calls(calls: Iterable[tuple[keras.Layer, Callable]]) -> Iterator[None]:
    """Replaces the `call` of layers while a graph is traced.

    Args:
        calls: Pairs of a layer and the function that replaces its `call`.
    """
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
    before = [(each, {name: getattr(each, name) for name in attributes}) for each in objects]

    def replace(each, values):
        for name, value in values.items():
            setattr(each, name, value)

    for each in objects:
        replace(each, attributes)
    try:
        yield
    finally:
        for each, values in before:
            replace(each, values)


def dense_layers(block) -> list:
    """Returns the dense layers of a block of the encoder."""
    attention, feed_forward = block.attention, block.feed_forward
    names = ("query", "key", "value", "output")
    return [
        *(getattr(attention, f"{name}_dense") for name in names),
        feed_forward.intermediate_dense,
        feed_forward.output_dense,
    ]


def swap_heads(x):
    """Transposes bfloat16 [B,T,N,H] to [B,N,T,H], and back.

    As integers, because oneDNN transposes floats and takes several times as long for few tokens.
    """
    return tf.bitcast(SelfAttention.swap_heads(tf.bitcast(x, tf.int16)), tf.bfloat16)


class Float16(Variant):
    """Stores the weights as float16, which halves the size.

    The server casts the weights to float32 once, when it loads the model. With a cast before each
    matrix product, a short text took 1.6 times as long as with float32.

    Args:
        model: The float32 model.
        others: Weights that are not stored, because the graphs do not read them.
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
        """Returns the weight as float32."""
        return tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)
