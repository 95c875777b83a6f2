"""Defines `Variant`, a model whose graphs are smaller or faster, and variants of 16 and 8 bits."""

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from bert_keras.distribution.numerics import processor_has_bfloat16
from bert_keras.errors import InputError

Inputs = Mapping[str, tf.Tensor]  # int32 [B,T], or [B,C,T] of a multiple choice model
_LARGEST = 127
_ZERO = 128
HIGHEST = 0.240376  # slightly more than the maximum of u erfc(u)
_INTERVALS = 255.99  # just under 256, because a float32 product may be rounded up


class Variant:
    """Replaces a float32 model in the graphs of an export, and has all attributes of the model."""

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
    """Stores the weights except `others` as float16, which halves the size.

    The server casts the weights to float32 once, when it loads the model. With a cast before each
    matrix product, a short text took 1.6 times as long as with float32.
    """

    def __init__(self, model: keras.Model, *, others: Iterable[keras.Variable] = ()):
        super().__init__(model)
        others = {id(weight) for weight in others}
        self.read_weights = [weight for weight in model.weights if id(weight) not in others]
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

    Products are added, and LayerNorms, embeddings and heads computed, in float32.
    """

    def __init__(self, model: keras.Model):
        if not processor_has_bfloat16():
            raise _missing("bfloat16")
        layers = [layer for block in model.encoder.blocks for layer in dense_layers(block)]
        super().__init__(model, others=[weight for layer in layers for weight in layer.weights])
        self.calls = [(layer, _Bfloat16Dense(layer)) for layer in layers]
        self.stored += [weight for _, dense in self.calls for weight in dense.weights]

    def __call__(self, inputs: Inputs, training: bool = False) -> Any:
        blocks = self.model.encoder.blocks
        # In a post-norm block, the second LayerNorm computes the output of the encoder.
        norms = [block.feed_forward_norm for block in blocks]
        layers = [each for block in blocks for each in block._flatten_layers() if each not in norms]
        # The products of attention have rounded the scores, and oneDNN's softmax of bfloat16
        # computes in float32, so float32 scores are not more exact.
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


class Int8(Variant):
    """Computes the dense layers of the encoder's blocks in 8 bits.

    The scheme is "vector-wise" quantization (Dettmers et al. 2022, LLM.int8(), section 2.1):
    weights are scaled by column, activations by token. TensorFlow's op `_QuantizedMatMul` (oneDNN)
    takes unsigned activations. They therefore have a zero point, and the op's bias subtracts its
    part of the product. A later TensorFlow can change the op, so `largest_weight` tests it first.
    """

    def __init__(self, model: keras.Model):
        super().__init__(model)
        self.largest = largest_weight()
        self.has_bfloat16 = processor_has_bfloat16()
        blocks = model.encoder.blocks
        self.calls = [call for block in blocks for call in self._calls(block)]
        replaced = {id(layer.kernel) for block in blocks for layer in dense_layers(block)}
        self.stored = [weight.value for weight in model.weights if id(weight) not in replaced]
        self.stored += [kernel for _, call in self.calls for kernel in call.kernels]

    def _calls(self, block: Any) -> list:
        attention, feed_forward = block.attention, block.feed_forward
        dtype = "bfloat16" if self.has_bfloat16 else "float32"
        heads = (attention.query_dense, attention.key_dense, attention.value_dense)
        others = [attention.output_dense]
        calls: list = [(each, _QuantizedDense(each, self.largest, dtype=dtype)) for each in heads]
        if feed_forward.activation == "gelu" and not feed_forward.is_gated:
            calls.append((feed_forward, QuantizedGelu(feed_forward, self.largest)))
        else:
            others += [feed_forward.intermediate_dense, feed_forward.output_dense]
        return [*calls, *((layer, _QuantizedDense(layer, self.largest)) for layer in others)]

    def __call__(self, inputs: Inputs, training: bool = False) -> Any:
        attentions = [block.attention for block in self.model.encoder.blocks]
        # Without autocast, the inputs of the quantized layers stay float32.
        of_attention = {"score_dtype": "bfloat16", "autocast": False} if self.has_bfloat16 else {}
        policy = {"dtype_policy": "bfloat16"} if self.has_bfloat16 else {}
        layers = [*attentions, *(attention.dropout for attention in attentions)]
        with (
            replaced_calls(self.calls),
            replaced_attributes(layers, **policy),
            replaced_attributes(attentions, **of_attention),
        ):
            return self.model(inputs, training=False)


class _Kernel:
    """An int8 kernel [D,F] of values up to `largest`, whose columns have their own scales."""

    def __init__(self, kernel: np.ndarray, largest: int, *, factor: float, zero: float):
        scales = np.maximum(np.abs(kernel).max(axis=0), 1e-12) / largest
        rounded = np.round(np.sign(factor) * kernel / scales).astype(np.int8)
        self.scales = abs(factor) * scales
        self.sums = self.scales * rounded.sum(axis=0, dtype=np.int32)
        self.offsets = -zero * self.sums
        self.variable = tf.Variable(rounded, trainable=False)

    def __call__(self, x_XD: tf.Tensor) -> tf.Tensor:
        """Returns (x - zero) @ kernel * factor, float32 [X,F], for x uint8 [X,D]."""
        return multiply_int8(x_XD, self.variable, scales=self.scales, offsets=self.offsets)


class _QuantizedDense:
    """A dense layer with an int8 kernel; maps float32 [X,D] to factor * outputs, [X,F]."""

    def __init__(self, layer: Any, largest: int, *, dtype: str = "float32", factor: float = 1):
        kernel = layer.kernel.numpy()
        self.product = _Kernel(kernel, largest, factor=factor / _LARGEST, zero=_ZERO)
        self.kernels = [self.product.variable]
        self.dtype, self.bias, self.factor = dtype, layer.bias, factor

    def __call__(self, x_XD: tf.Tensor, training: bool = False) -> tf.Tensor:
        highest_X1 = tf.reduce_max(x_XD, axis=-1, keepdims=True)
        lowest_X1 = tf.reduce_min(x_XD, axis=-1, keepdims=True)
        largest_X1 = tf.maximum(highest_X1, -lowest_X1)
        scale_X1 = tf.math.divide_no_nan(float(_LARGEST), largest_X1)
        product_XF = self.product(tf.cast(x_XD * scale_X1 + (_ZERO + 0.5), tf.uint8)) * largest_X1
        if self.bias is not None:
            product_XF = product_XF + self.factor * self.bias
        return tf.cast(product_XF, self.dtype)


class QuantizedGelu:
    """A feed-forward network with GELU, whose factors are part of the scales of the products.

    With u = -sqrt(1/2) z, gelu(z) = z / 2 * erfc(u) = -sqrt(1/2) u erfc(u). The second product
    takes u erfc(u), which is never larger than `HIGHEST`. [lowest value of a token, HIGHEST]
    becomes [0, 256) without fractions, so a number stands for the middle of its interval.
    """

    def __init__(self, layer: Any, largest: int):
        factor = -math.sqrt(0.5)
        self.inner = _QuantizedDense(layer.intermediate_dense, largest, factor=factor)
        kernel = layer.output_dense.kernel.numpy()
        self.product = _Kernel(kernel, largest, factor=-factor / _INTERVALS, zero=-0.5)
        self.kernels = [*self.inner.kernels, self.product.variable]
        self.highest = -HIGHEST * _INTERVALS * self.product.sums
        self.bias = layer.output_dense.bias

    def __call__(self, hidden_XD: tf.Tensor, training: bool = False) -> tf.Tensor:
        u_XF = self.inner(hidden_XD)
        values_XF = u_XF * tf.math.erfc(u_XF)
        width_X1 = HIGHEST - tf.reduce_min(values_XF, axis=-1, keepdims=True)
        rounded_XF = tf.cast((HIGHEST - values_XF) * (_INTERVALS / width_X1), tf.uint8)
        bias_D = tf.constant(self.highest, tf.float32)
        if self.bias is not None:
            bias_D += self.bias
        return self.product(rounded_XF) * width_X1 + bias_D


def multiply_int8(
    x_XD: Any, kernel_DF: Any, *, scales: np.ndarray, offsets: np.ndarray
) -> tf.Tensor:
    """Returns (x uint8 @ kernel int8) * scales [F] + offsets [F], float32 [X,F]."""
    x_XD, kernel_DF = tf.bitcast(x_XD, tf.quint8), tf.bitcast(kernel_DF, tf.qint8)
    device = [x_XD, kernel_DF, tf.constant(offsets, tf.float32)]
    # The smallest and largest value of the activations, then of each kernel column.
    ranges = [0.0, 255.0, -_LARGEST * scales, _LARGEST * scales]
    host = [tf.constant(each, tf.float32) for each in ranges]
    operation = tf.compat.v1.get_default_graph().create_op(
        "_QuantizedMatMul",
        [*device, *host],
        [tf.float32],
        name="int8_product",  # a name in a graph cannot begin with an underscore
        attrs={
            "Tdevice_inputs": _types(tensor.dtype for tensor in device),
            "Thost_inputs": _types(tensor.dtype for tensor in host),
            "Tdevice_outputs": _types([tf.float32]),
            "Thost_outputs": _types([]),
            "T1": AttrValue(type=tf.quint8.as_datatype_enum),
            "T2": AttrValue(type=tf.qint8.as_datatype_enum),
            "fused_ops": AttrValue(list=AttrValue.ListValue(s=[b"BiasAdd", b"Dequantize"])),
        },
    )
    return operation.outputs[0]


def _missing(dtype: str) -> InputError:
    return InputError(f"this processor does not multiply {dtype} exactly; choose another variant")


def _types(dtypes: Iterable[tf.DType]) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(type=[each.as_datatype_enum for each in dtypes]))


def largest_weight(multiply: Callable[..., tf.Tensor] = multiply_int8) -> int:
    """Returns the largest weight that `multiply` on this machine multiplies exactly: 127 or 64.

    x86 processors without VNNI add two products of 8 bits in 16 bits. With weights of 7 bits, the
    sum fits: 2 * 255 * 64 < 2^15.
    """
    size = 64
    x = tf.fill([size, size], tf.constant(255, tf.uint8))

    plain = {"scales": np.ones(size), "offsets": np.zeros(size)}

    def product(weight: int) -> np.ndarray:
        with tf.device("CPU:0"):
            kernel = tf.fill([size, size], tf.constant(weight, tf.int8))
            return tf.function(lambda: multiply(x, kernel, **plain))().numpy()

    for weight in (_LARGEST, 64):
        if (product(weight) == size * 255 * weight).all():
            return weight
    raise _missing("int8")
