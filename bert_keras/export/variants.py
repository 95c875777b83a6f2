"""A Keras model comes in; what stands for it in graphs that are smaller or faster goes out."""

import abc
import hashlib
from collections.abc import Sequence
from typing import ClassVar

import keras
import tensorflow as tf


class Variant(abc.ABC):
    """Graphs are traced of the variant; whatever is asked eagerly, the model itself answers.

    `stored` is what a SavedModel keeps for these graphs. `saves` "size" or "time" of float32's;
    where a variant `is_exact`, its answers are the model's but for rounding.
    """

    saves: ClassVar[str]
    is_exact: ClassVar[bool] = False
    stored: Sequence

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
        """What the model puts out for `inputs`, in the graph that is being traced."""

    def with_weights(self, tensors: Sequence[tf.Tensor], inputs):
        mapping = [*zip(self.model.weights, tensors, strict=True)]
        with keras.StatelessScope(state_mapping=mapping):
            return self.model(inputs, training=False)


class Float16(Variant):
    """Weights are stored in half the bytes. The server makes float32 of them once, when it loads
    them: on the way to each product it took 1.6 times as long as float32 for a short text."""

    saves = "size"

    def __init__(self, model):
        super().__init__(model)
        self.halves = [_Half(weight.numpy(), weight.path) for weight in model.weights]
        self.stored = [*self.halves, *(half.variable for half in self.halves)]

    def traced(self, inputs):
        return self.with_weights([half.whole() for half in self.halves], inputs)


class _Half(tf.saved_model.experimental.TrackableResource):
    """A float32 resource that the initializer of a SavedModel fills from a float16 variable."""

    def __init__(self, array, path: str):
        super().__init__()
        self.variable = tf.Variable(array.astype("float16"), trainable=False)
        self.shape = array.shape
        # Models that one process loads share what has one name.
        self.name = f"{path}-{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self.shape, shared_name=self.name)

    def _initialize(self):
        whole = tf.cast(self.variable.read_value(), tf.float32)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=whole)

    def whole(self) -> tf.Tensor:
        return tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.float32)


class Folded(Variant):
    """Weights are constants of the graph, which TensorFlow prepares for its products when it loads
    them: a slow start and more memory for less time."""

    saves = "time"
    is_exact = True

    def __init__(self, model):
        super().__init__(model)
        self.constants = [tf.constant(weight.numpy()) for weight in model.weights]
        self.stored = []

    def traced(self, inputs):
        return self.with_weights(self.constants, inputs)


class Compiled(Variant):
    """XLA compiles the graph anew for each number of texts and pieces, at its first request. TF
    Serving does so only where it is started with --xla_cpu_compilation_enabled=true."""

    saves = "time"
    is_exact = True

    def __init__(self, model):
        super().__init__(model)
        self.stored = [weight.value for weight in model.weights]
        self.compiled = tf.function(lambda inputs: model(inputs, training=False), jit_compile=True)

    def traced(self, inputs):
        return self.compiled(inputs)
