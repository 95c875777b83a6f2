"""Validates the JSON document of a predict request and converts it to one array per input.

The rules and most error messages follow tensorflow_serving/util/json_tensor.cc. The name of a dtype
is that of TensorFlow's DataType without "DT_", in lower case ("float", "int64", "string"). A string
tensor is an object array of bytes.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.serving.calls import Refusal
from bert_keras.serving.json_text import is_base64, show_json, string_bytes, type_name

DEFAULT_SIGNATURE = "serving_default"

_INTEGERS = {  # the range of each integer dtype
    **{f"int{bits}": range(-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": range(2**bits) for bits in (8, 16, 32, 64)},
}
_NUMPY_DTYPES = {
    **{"float": np.float32, "double": np.float64, "bool": np.bool_, "string": object},
    **{dtype: np.dtype(dtype) for dtype in _INTEGERS},
}
_MAX_DIMENSIONS = 63  # of a row: NumPy's limit of 64 minus the batch dimension; TF Serving: 254


def read_signature_name(document: dict[str, Any]) -> str:
    """Return the name of the requested signature, by default `DEFAULT_SIGNATURE`.

    Args:
        document: The parsed body of the request.

    Raises:
        Refusal: If "signature_name" is not a string.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise Refusal(
            f"JSON Value: {show_json(document)} not formatted correctly. 'signature_name' key must "
            "be a string value."
        )
    return name or DEFAULT_SIGNATURE


def read_predict(
    document: dict[str, Any], signature_name: str, signatures: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Convert the "instances" (rows) or "inputs" (columns) of a predict request to arrays.

    Args:
        document: The parsed body of the request.
        signature_name: Name of the signature, from `read_signature_name`.
        signatures: Maps each signature name of the model to its SignatureDef.

    Returns:
        Arrays by input name.

    Raises:
        Refusal: If the signature or one of its inputs is missing, or if a value has the wrong type
            or shape.
    """
    inputs = input_dtypes(signatures, signature_name)
    if not inputs:
        raise Refusal(f"Failed to get input map for signature: {signature_name}")
    if "instances" in document and "inputs" in document:
        raise Refusal(
            f"JSON Value: {show_json(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    if "instances" in document:
        return _read_rows(document, inputs)
    if "inputs" in document:
        return _read_columns(document["inputs"], inputs)
    raise Refusal("Missing 'inputs' or 'instances' key")


def input_dtypes(signatures: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the inputs of a signature.

    Args:
        signatures: Maps each signature name to its SignatureDef.
        name: Name of the signature.

    Returns:
        {input name: dtype}, sorted by name.

    Raises:
        Refusal: If there is no signature of this name.
    """
    from tensorflow.core.framework.types_pb2 import DataType

    if name not in signatures:
        raise Refusal(f'Serving signature name: "{name}" not found in signature def')
    return {
        key: DataType.Name(info.dtype).removeprefix("DT_").lower()
        for key, info in sorted(signatures[name].inputs.items())
    }


def _read_rows(document: dict[str, Any], inputs: dict[str, str]) -> dict[str, np.ndarray]:
    instances = document["instances"]
    if not isinstance(instances, list):
        raise Refusal(
            f"JSON Value: {show_json(document)} Expecting 'instances' to be an list/array"
        )
    if not instances:
        raise Refusal(f"JSON Value: {show_json(document)} No values in 'instances' array")
    has_names = _has_names(instances[0])
    for number, instance in enumerate(instances):
        if _has_names(instance) != has_names:
            expected = "object but got list" if has_names else "value/list but got object"
            raise Refusal(f"Expecting {expected} at item {number} of input list")
        if has_names:
            _check_names(instance, inputs, number)
    if has_names:
        return {
            name: _stacked([instance[name] for instance in instances], dtype, key=f" key: {name}")
            for name, dtype in inputs.items()
        }
    if len(inputs) > 1:
        raise Refusal(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    return {name: _stacked(instances, dtype) for name, dtype in inputs.items()}


def _read_columns(columns: object, inputs: dict[str, str]) -> dict[str, np.ndarray]:
    if not isinstance(columns, dict) or is_base64(columns):
        if len(inputs) > 1:
            raise Refusal(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        columns = dict.fromkeys(inputs, columns)
    for name in inputs:
        if name not in columns:
            raise Refusal(f"Missing named input: {name} in 'inputs' object.")
    tensors = {}
    for name, dtype in inputs.items():
        shape = _dense_shape(columns[name])
        tensors[name] = _array(_leaves(columns[name], shape, dtype), shape, dtype)
    return tensors


def _has_names(value: object) -> bool:
    """Whether `value` maps input names to tensors, unlike {"b64": text}, which is a string."""
    return isinstance(value, dict) and not is_base64(value)


def _check_names(instance: dict[str, Any], inputs: dict[str, str], number: int) -> None:
    for name in instance:
        if name not in inputs:
            raise _row_error(
                number, f" key: {name}", f"JSON object: does not have named input: {name}"
            )
    if instance.keys() != inputs.keys():
        raise Refusal(
            f"Failed to process element: {number} of 'instances' list. JSON object: "
            f"{show_json(instance)} keys must be equal to: {','.join(inputs)}"
        )


def _row_error(number: int, key: str, message: str) -> Refusal:
    return Refusal(
        f"Failed to process element: {number}{key} of 'instances' list. Error: INVALID_ARGUMENT: "
        f"{message}"
    )


def _stacked(items: list[Any], dtype: str, *, key: str = "") -> np.ndarray:
    """Stack the values of one input; every instance must have the shape of the first one."""
    shape = _dense_shape(items[0])
    values = []
    for number, item in enumerate(items):
        try:
            values += _leaves(item, shape, dtype)
        except Refusal as error:
            raise _row_error(number, key, str(error)) from None
    return _array(values, [len(items), *shape], dtype)


def _dense_shape(value: object) -> list[int]:
    """Return the shape given by the first elements; `_leaves` checks the other elements."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    if len(shape) > _MAX_DIMENSIONS:
        raise Refusal(f"Tensor has {len(shape)} dimensions; expected at most {_MAX_DIMENSIONS}")
    return shape


def shape_text(shape: list[int] | tuple[int, ...]) -> str:
    """Format a shape as in TF Serving's error messages, such as "[2,3]"."""
    return f"[{','.join(map(str, shape))}]"


def _leaves(value: object, shape: list[int], dtype: str) -> list[Any]:
    """Flatten nested lists; raise Refusal for ragged lists and wrong types."""
    if not shape and not isinstance(value, list):
        return [_leaf(value, dtype)]
    if shape and isinstance(value, list) and len(value) == shape[0]:
        return [leaf for item in value for leaf in _leaves(item, shape[1:], dtype)]
    actual = _dense_shape(value)
    if math.prod(actual) != math.prod(shape):
        raise Refusal(f"Expecting tensor size: {math.prod(shape)} but got: {math.prod(actual)}")
    raise Refusal(f"Expecting shape {shape_text(shape)} but got: {shape_text(actual)}")


def _leaf(value: Any, dtype: str) -> object:
    if dtype not in _NUMPY_DTYPES:
        raise Refusal(f"Conversion of JSON Value: {show_json(value)} to type: {dtype}", status=501)
    if dtype == "string" and isinstance(value, str | dict):
        return string_bytes(value)
    if dtype in _INTEGERS:
        is_valid = type(value) is int and value in _INTEGERS[dtype]
    elif dtype == "bool":
        is_valid = isinstance(value, bool)
    else:
        is_valid = dtype != "string" and type(value) in (int, float)
    if not is_valid:
        raise Refusal(
            f"JSON Value: {show_json(value)} Type: {type_name(value)} is not of expected type: "
            f"{dtype}"
        )
    return value


def _array(values: list[Any], shape: list[int], dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):  # 1e60 becomes Infinity as a float32
        return np.array(values, dtype=_NUMPY_DTYPES.get(dtype, np.float32)).reshape(shape)
