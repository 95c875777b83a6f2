"""Tensors in a request: a JSON value and a dtype come in, a numpy array goes out.

Dtypes are named as TensorFlow's DataType without "DT_"; strings become object arrays of bytes. The
sentences of refusal are those of tensorflow_serving/util/json_tensor.cc.
"""

import base64
import binascii
import re

import numpy as np

from bert_keras.serving.json_text import show_json
from bert_keras.serving.protocol import Refused

_TYPE_NAMES = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
_TYPE_NAMES[type(None)] = "Null"
_INT_RANGES = {
    **dict.fromkeys(("int32", "int16", "int8", "uint8"), (-(2**31), 2**31 - 1)),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_MOST_DIMENSIONS = 63  # numpy's 64 less the one of the batch; TF Serving takes 254
_NUMPY_DTYPES = {"float": np.float32, "double": np.float64, "bool": np.bool_, "string": object}


def read_tensor(value: object, dtype: str) -> np.ndarray:
    """The nested lists of `value` as an array; raises Refused for ragged lists and wrong types."""
    shape = _dense_shape(value)
    return _array(_leaves(value, shape, dtype), shape, dtype)


class Column:
    """The values of one input, gathered row by row; every row has the shape of the first."""

    def __init__(self, dtype: str):
        self.dtype = dtype
        self.shape: list[int] | None = None
        self.values: list[object] = []

    def add(self, item: object) -> None:
        shape = _dense_shape(item)
        values = _leaves(item, shape, self.dtype)
        if self.shape is None:
            self.shape, self.size = shape, len(values)
        if self.size != len(values):
            raise Refused(f"Expecting tensor size: {self.size} but got: {len(values)}")
        if self.shape != shape:
            raise Refused(f"Expecting shape {_shown(self.shape)} but got: {_shown(shape)}")
        self.values += values

    def array(self, num_rows: int) -> np.ndarray:
        return _array(self.values, [num_rows, *self.shape], self.dtype)


def is_base64(value: dict[str, object]) -> bool:
    """Whether `value` is {"b64": text}."""
    return value.keys() == {"b64"} and isinstance(value["b64"], str)


def _dense_shape(value: object) -> list[int]:
    """The shape that the first elements promise; the others are checked against it."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    if len(shape) > _MOST_DIMENSIONS:
        raise Refused(f"Tensor has {len(shape)} dimensions; at most {_MOST_DIMENSIONS} are taken")
    return shape


def _shown(shape: list[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _leaves(value: object, shape: list[int], dtype: str, level: int = 0) -> list[object]:
    """The scalars of nested lists in order; raises Refused for ragged lists and wrong types."""
    if not isinstance(value, list):
        if level != len(shape):
            raise Refused(
                f"JSON Value: {show_json(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        return [_leaf(value, dtype)]
    if level >= len(shape):
        raise Refused(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise Refused(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: "
            f"{shape[level]}"
        )
    return [leaf for item in value for leaf in _leaves(item, shape, dtype, level + 1)]


def _leaf(value: object, dtype: str) -> object:
    kind = type(value)
    if dtype == "string":
        if kind is str:
            return value.encode("utf-8", "surrogateescape")
        if kind is dict:
            return base64_bytes(value)
        fits = False
    elif dtype in ("float", "double"):
        fits = kind in (int, float)
    elif dtype in _INT_RANGES:
        lowest, highest = _INT_RANGES[dtype]
        fits = kind is int and lowest <= value <= highest
    elif dtype == "bool":
        fits = kind is bool
    elif kind is dict:
        fits = False
    else:
        raise Refused(f"Conversion of JSON Value: {show_json(value)} to type: {dtype}", status=501)
    if not fits:
        raise Refused(
            f"JSON Value: {show_json(value)} Type: {type_name(value)} is not of expected type: "
            f"{dtype}"
        )
    return value


def type_name(value: object) -> str:
    """RapidJSON's name for the type of `value`."""
    return _TYPE_NAMES.get(type(value)) or str(value)


def base64_bytes(value: dict[str, object]) -> bytes:
    """The bytes of {"b64": text}; raises Refused where it is something else."""
    if not is_base64(value):
        raise Refused(f"JSON Value: {show_json(value)} not formatted correctly for base64 data")
    text = re.sub(r"\s", "", value["b64"])
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise Refused("Unable to base64 decode") from None


def _array(values: list[object], shape: list[int], dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):  # 1e60 is Infinity as a float, and small integers wrap around
        if dtype in _INT_RANGES:
            wide = np.uint64 if dtype == "uint64" else np.int64
            return np.array(values, dtype=wide).astype(dtype).reshape(shape)
        return np.array(values, dtype=_NUMPY_DTYPES.get(dtype, np.float32)).reshape(shape)
