"""Validates the JSON document of a predict request and converts it to one array per input.

The rules and sentences are those of tensorflow_serving/util/json_tensor.cc. Dtypes are named as
TensorFlow's DataType without "DT_" ("float", "int64", "string"); strings are object arrays of
bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_keras.serving.calls import Refused
from bert_keras.serving.json_text import base64_bytes, is_base64, show_json, type_name

DEFAULT_SIGNATURE = "serving_default"

_INT_RANGES = {
    **dict.fromkeys(("int32", "int16", "int8", "uint8"), (-(2**31), 2**31 - 1)),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_NUMPY_DTYPES = {"float": np.float32, "double": np.float64, "bool": np.bool_, "string": object}
_MAX_DIMENSIONS = 63  # numpy's 64 less the one of the batch; TF Serving takes 254


@dataclass(frozen=True)
class PredictRequest:
    """What a body asks for."""

    signature_name: str
    form: str  # "instances" (rows) or "inputs" (columns)
    tensors: dict[str, np.ndarray]  # by input name


def read_signature_name(document: dict[str, Any]) -> str:
    """Return the signature that the document names, or ""; raises Refused where it is no string."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise Refused(
            f"JSON Value: {show_json(document)} not formatted correctly. 'signature_name' key must "
            "be a string value."
        )
    return name


def read_predict(
    document: dict[str, Any], name: str, *, signatures: Mapping[str, Any]
) -> PredictRequest:
    """Convert the document of a predict request.

    Args:
        document: The parsed body.
        name: Its `read_signature_name`.
        signatures: SignatureDef by name, of the model that is asked.

    Raises:
        Refused: where the signature or one of its inputs is missing, or a value does not fit.
    """
    inputs = input_dtypes(signatures, name or DEFAULT_SIGNATURE)
    if not inputs:
        raise Refused(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    forms = [form for form in ("instances", "inputs") if form in document]
    if not forms:
        raise Refused("Missing 'inputs' or 'instances' key")
    if len(forms) == 2:
        raise Refused(
            f"JSON Value: {show_json(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    read = _read_rows if forms == ["instances"] else _read_columns
    return PredictRequest(name or DEFAULT_SIGNATURE, forms[0], read(document, inputs))


def input_dtypes(signatures: Mapping[str, Any], name: str) -> dict[str, str]:
    """{input name: dtype} of the SignatureDef of that name; raises Refused where there is none."""
    from tensorflow.core.framework.types_pb2 import DataType

    if name not in signatures:
        raise Refused(f'Serving signature name: "{name}" not found in signature def')
    return {
        key: DataType.Name(info.dtype).removeprefix("DT_").lower()
        for key, info in sorted(signatures[name].inputs.items())
    }


def _read_rows(document: dict[str, Any], inputs: dict[str, str]) -> dict[str, np.ndarray]:
    instances = document["instances"]
    if not isinstance(instances, list):
        raise Refused(
            f"JSON Value: {show_json(document)} Expecting 'instances' to be an list/array"
        )
    if not instances:
        raise Refused(f"JSON Value: {show_json(document)} No values in 'instances' array")
    if not isinstance(instances[0], dict) and len(inputs) > 1:
        raise Refused(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    columns = {name: _Column(dtype) for name, dtype in inputs.items()}
    if _is_named(instances[0]):
        _fill_named(columns, instances)
    else:
        _fill_unnamed(columns, instances)
    return {name: column.array(len(instances)) for name, column in columns.items()}


def _fill_named(columns: dict[str, "_Column"], instances: list[Any]) -> None:
    for number, instance in enumerate(instances):
        if not _is_named(instance):
            raise Refused(f"Expecting object but got list at item {number} of input list")
        for name, item in instance.items():
            try:
                if name not in columns:
                    raise Refused(f"JSON object: does not have named input: {name}")
                columns[name].add(item)
            except Refused as error:
                raise Refused(
                    f"Failed to process element: {number} key: {name} of 'instances' list. "
                    f"Error: INVALID_ARGUMENT: {error.sentence}"
                ) from None
        if instance.keys() != columns.keys():
            raise Refused(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{show_json(instance)} keys must be equal to: {','.join(sorted(columns))}"
            )


def _fill_unnamed(columns: dict[str, "_Column"], instances: list[Any]) -> None:
    name, column = min(columns.items())
    if len(columns) > 1:  # {"b64": ...} came where several inputs want their names
        missing = sorted(columns.keys() - {name})
        raise Refused(
            f"input size does not match signature: 1!={len(columns)} len({{{name}}}) != "
            f"len({{{','.join(sorted(columns))}}}). Sent extra: {{}}. Missing but required: "
            f"{{{','.join(missing)}}}."
        )
    for number, instance in enumerate(instances):
        if _is_named(instance):
            raise Refused(f"Expecting value/list but got object at item {number} of input list")
        try:
            column.add(instance)
        except Refused as error:
            raise Refused(
                f"Failed to process element: {number} of 'instances' list. "
                f"Error: INVALID_ARGUMENT: {error.sentence}"
            ) from None


def _read_columns(document: dict[str, Any], inputs: dict[str, str]) -> dict[str, np.ndarray]:
    given = document["inputs"]
    if not _is_named(given):
        if len(inputs) > 1:
            raise Refused(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        given = dict.fromkeys(inputs, given)
    for name in inputs:
        if name not in given:
            raise Refused(f"Missing named input: {name} in 'inputs' object.")
    shapes = {name: _dense_shape(given[name]) for name in inputs}
    return {
        name: _array(_leaves(given[name], shapes[name], dtype), shapes[name], dtype)
        for name, dtype in inputs.items()
    }


def _is_named(value: object) -> bool:
    """Whether `value` maps names to tensors: an object, but not {"b64": text}."""
    return isinstance(value, dict) and not is_base64(value)


class _Column:
    """The values of one input, gathered row by row; every row has the shape of the first."""

    def __init__(self, dtype: str):
        self._dtype = dtype
        self._shape: list[int] = []
        self._size: int | None = None  # of one row; None before the first
        self._values: list[Any] = []

    def add(self, item: object) -> None:
        shape = _dense_shape(item)
        values = _leaves(item, shape, self._dtype)
        if self._size is None:
            self._shape, self._size = shape, len(values)
        if self._size != len(values):
            raise Refused(f"Expecting tensor size: {self._size} but got: {len(values)}")
        if self._shape != shape:
            raise Refused(f"Expecting shape {shape_text(self._shape)} but got: {shape_text(shape)}")
        self._values += values

    def array(self, num_rows: int) -> np.ndarray:
        return _array(self._values, [num_rows, *self._shape], self._dtype)


def _dense_shape(value: object) -> list[int]:
    """The shape that the first elements have; `_leaves` checks the others against it."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    if len(shape) > _MAX_DIMENSIONS:
        raise Refused(f"Tensor has {len(shape)} dimensions; at most {_MAX_DIMENSIONS} are taken")
    return shape


def shape_text(shape: list[int] | tuple[int, ...]) -> str:
    """A shape as TF Serving shows it."""
    return f"[{','.join(map(str, shape))}]"


def _leaves(value: object, shape: list[int], dtype: str, level: int = 0) -> list[Any]:
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


def _leaf(value: Any, dtype: str) -> object:
    kind = type(value)
    fits = False
    if dtype == "string":
        if kind is str:
            return value.encode("utf-8", "surrogateescape")
        if kind is dict:
            return base64_bytes(value)
    elif dtype in ("float", "double"):
        fits = kind in (int, float)
    elif dtype in _INT_RANGES:
        lowest, highest = _INT_RANGES[dtype]
        fits = kind is int and lowest <= value <= highest
    elif dtype == "bool":
        fits = kind is bool
    elif kind is not dict:
        raise Refused(f"Conversion of JSON Value: {show_json(value)} to type: {dtype}", status=501)
    if not fits:
        raise Refused(
            f"JSON Value: {show_json(value)} Type: {type_name(value)} is not of expected type: "
            f"{dtype}"
        )
    return value


def _array(values: list[Any], shape: list[int], dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):  # 1e60 is Infinity as a float, and small integers wrap around
        if dtype in _INT_RANGES:
            wide = np.uint64 if dtype == "uint64" else np.int64
            return np.array(values, dtype=wide).astype(dtype).reshape(shape)
        return np.array(values, dtype=_NUMPY_DTYPES.get(dtype, np.float32)).reshape(shape)
