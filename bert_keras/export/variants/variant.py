"""What stands for a Keras model in graphs that are smaller or faster; one with float16 weights."""

import abc
import hashlib
from collections.abc import Sequence
from typing import ClassVar

import keras
import tensorflow as tf


class Variant(abc.ABC):
    """Graphs are traced with the variant; eager calls go to the model itself."""

    saves: ClassVar[str]  # "size" or "time", compared with float32
    stored: Sequence  # what a SavedModel keeps for these graphs

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
        """Returns the model's outputs in the graph that is being traced."""


class Float16(Variant):
    """Stores weights in half the bytes. The server casts them to float32 once, when it loads them:
    a cast before each product took 1.6 times as long as float32 for a short text."""

    saves = "size"

    def __init__(self, model):
        super().__init__(model)
        self.halves = [_Half(weight.numpy(), weight.path) for weight in model.weights]
        self.stored = [*self.halves, *(half.variable for half in self.halves)]

    def traced(self, inputs):
        wholes = [half.whole() for half in self.halves]
        mapping = [*zip(self.model.weights, wholes, strict=True)]
        with keras.StatelessScope(state_mapping=mapping):
            return self.model(inputs, training=False)


class _Half(tf.saved_model.experimental.TrackableResource):
    """A float32 resource that the initializer of a SavedModel fills from a float16 variable."""

    def __init__(self, array, path: str):
        super().__init__()
        self.variable = tf.Variable(array.astype("float16"), trainable=False)
        self.shape = array.shape
        # Models that one process loads share resources of one name.
        self.name = f"{path}-{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self.shape, shared_name=self.name)

    def _initialize(self):
        whole = tf.cast(self.variable.read_value(), tf.float32)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=whole)

    def whole(self) -> tf.Tensor:
        """float32, of the weight's shape."""
        return tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)
