"""Defines the int8 variant, which computes the matrix products of the encoder in 8 bits.

The scheme is "vector-wise" quantization (Dettmers et al. 2022, LLM.int8(), section 2.1). Weights
are quantized once, each column by its largest absolute value. Activations are quantized at run
time, each token by its largest absolute value.

TensorFlow's op `_QuantizedMatMul` (oneDNN) computes the product. It takes unsigned activations, so
their zero point is 128. The constant that this zero point adds to each column of the product is
subtracted through the op's bias. Ops whose names begin with an underscore can change with any
version of TensorFlow. `check_kernel` therefore tests the op before it is used.
"""

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from bert_keras.errors import InputError
from bert_keras.exporting.variants.variant import Variant, dense_layers, replaced_calls

_LARGEST = 127
_ZERO = 128


class Int8(Variant):
    """Computes the dense layers of the encoder's blocks in 8 bits.

    Args:
        model: A Keras model with an `encoder`.

    Raises:
        InputError: TensorFlow or the processor lacks a kernel that multiplies int8 exactly.
    """

    saves = "time"

    def __init__(self, model):
        check_kernel()
        super().__init__(model)
        layers = [layer for block in model.encoder.blocks for layer in dense_layers(block)]
        self.dense = [(layer, _QuantizedDense(layer)) for layer in layers]
        kernels = {id(layer.kernel) for layer, _ in self.dense}
        self.stored = [
            *(weight.value for weight in model.weights if id(weight) not in kernels),
            *(quantized.kernel for _, quantized in self.dense),
        ]

    def traced(self, inputs):
        with replaced_calls(self.dense):
            return self.model(inputs, training=False)


class _QuantizedDense:
    """A dense layer with an int8 kernel; maps float32 [X,D] to float32 [X,F]."""

    def __init__(self, layer):
        kernel = layer.kernel.numpy()
        self.scales = np.maximum(np.abs(kernel).max(axis=0), 1e-12) / _LARGEST
        kernel = np.round(kernel / self.scales).astype(np.int8)
        self.kernel, self.bias = tf.Variable(kernel, trainable=False), layer.bias
        self.offsets = -_ZERO * self.scales * kernel.sum(axis=0, dtype=np.int32)

    def __call__(self, x_XD, training=False):
        largest_X1 = tf.maximum(tf.reduce_max(tf.abs(x_XD), axis=-1, keepdims=True), 1e-12)
        rounded_XD = tf.cast(x_XD * (_LARGEST / largest_X1) + (_ZERO + 0.5), tf.uint8)
        product_XF = _product(rounded_XD, self.kernel, scales=self.scales, offsets=self.offsets)
        product_XF = product_XF * (largest_X1 / _LARGEST)
        return product_XF if self.bias is None else product_XF + self.bias


def _product(x_XD, kernel_DF, *, scales: np.ndarray, offsets: np.ndarray) -> tf.Tensor:
    """Returns (x @ kernel) * scales + offsets.

    Args:
        x_XD: uint8 [X,D].
        kernel_DF: int8 [D,F].
        scales: [F].
        offsets: [F].

    Returns:
        float32 [X,F].
    """
    device = [
        tf.bitcast(x_XD, tf.quint8),
        tf.bitcast(kernel_DF, tf.qint8),
        tf.constant(offsets, tf.float32),
    ]
    # The smallest and largest value of the activations, then of each kernel column.
    ranges = [0.0, 255.0, -_LARGEST * scales, _LARGEST * scales]
    host = [tf.constant(each, tf.float32) for each in ranges]
    operation = tf.compat.v1.get_default_graph().create_op(
        "_QuantizedMatMul",
        [*device, *host],
        [tf.float32],
        name="int8_product",  # a name in a graph cannot begin with an underscore
        attrs={
            "Tdevice_inputs": _types([tensor.dtype for tensor in device]),
            "Thost_inputs": _types([tensor.dtype for tensor in host]),
            "Tdevice_outputs": _types([tf.float32]),
            "Thost_outputs": _types([]),
            "T1": AttrValue(type=tf.quint8.as_datatype_enum),
            "T2": AttrValue(type=tf.qint8.as_datatype_enum),
            "fused_ops": AttrValue(list=AttrValue.ListValue(s=[b"BiasAdd", b"Dequantize"])),
        },
    )
    return operation.outputs[0]


def _types(dtypes) -> AttrValue:
    types = [dtype.as_datatype_enum for dtype in dtypes]
    return AttrValue(list=AttrValue.ListValue(type=types))


def check_kernel() -> None:
    """Raises InputError if TensorFlow on this machine does not multiply int8 exactly.

    The test multiplies the largest values, because x86 processors without VNNI add the products in
    too few bits.
    """
    size = 64
    x = np.full((size, size), 255, np.uint8)
    kernel = np.full((size, size), _LARGEST, np.int8)
    product = tf.function(
        lambda: _product(
            tf.constant(x), tf.constant(kernel), scales=np.ones(size), offsets=np.zeros(size)
        )
    )
    try:
        with tf.device("CPU:0"):
            values = product().numpy()
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(
            f"TensorFlow {tf.__version__} has no int8 matrix product (_QuantizedMatMul) for this "
            "machine; choose another variant"
        ) from error
    if (values != size * 255 * _LARGEST).any():
        raise InputError(
            "this processor does not multiply int8 exactly, as processors with VNNI do; choose "
            "another variant"
        )
