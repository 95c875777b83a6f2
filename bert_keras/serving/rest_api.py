"""Reads requests of TF Serving's REST API and writes its responses.

The rules and the messages follow tensorflow_serving/model_servers/http_rest_api_util.cc and
tensorflow_serving/util/json_tensor.cc. A string tensor is an object array of bytes.
"""

import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard
from urllib.parse import unquote

import numpy as np

DEFAULT_SIGNATURE = "serving_default"
Tensors = dict[str, np.ndarray]  # by name
Dtypes = Mapping[str, str]  # keys of `_DTYPES` by the name of the tensor

_PATH = re.compile(
    r"/v1/models(?:/(?P<model>[^/:]+))?"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?(?P<verb>/metadata|:predict)?"
)
_VERBS = {"GET": "status", "GET /metadata": "metadata", "POST :predict": "predict"}
# HTTP status -> name of TensorFlow's error code
CODES = {
    **{200: "OK", 400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED"},
    **{408: "DEADLINE_EXCEEDED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"},
}
_MAX_VALUES = 2**20  # of a body; a list or an object, which takes 64 bytes, counts as four
_SEVERAL = "as multiple input tensors required as per tensorinfo_map"
_TYPE_NAMES = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
# TensorFlow's name of a dtype, in lower case -> NumPy's dtype and the Python types of its values
_DTYPES: dict[str, tuple[Any, set[type]]] = {
    **{"float": (np.float32, {int, float}), "double": (np.float64, {int, float})},
    **{"bool": (np.bool_, {bool}), "string": (object, {str, dict})},
    **{f"int{bits}": (f"int{bits}", {int}) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (f"uint{bits}", {int}) for bits in (8, 16, 32, 64)},
}


class Refusal(Exception):
    """A request that the server rejects, with a message, or "" for a response without a body.

    Args:
        status: The HTTP status.
        param, code: Fields of an error of OpenAI's API.
    """

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ):
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


@dataclass(frozen=True)
class Call:
    """A parsed request line."""

    model: str  # name of the model; "" if the path does not contain it
    version: int | None = None  # None: the latest version
    verb: str = ""  # status, metadata, predict or embeddings


def read_call(method: str, path: str) -> Call:
    """Parses an HTTP method and a percent-encoded path with its query."""
    if (method, path.partition("?")[0]) == ("POST", "/v1/embeddings"):  # of OpenAI's API
        return Call("", verb="embeddings")
    match = _PATH.fullmatch(path)
    verb = match and _VERBS.get(f"{method} {match['verb'] or ''}".strip())
    if not match or not verb or (verb == "predict" and not match["model"]):
        raise Refusal(f"Malformed request: {method} {path}")
    # 20 digits are enough to see that a number is too large.
    version = int(match["version"].lstrip("0")[:20] or 0) if match["version"] else None
    if version and version >= 2**63:
        raise Refusal("")
    if not match["model"]:
        raise Refusal("Missing model name in request.")
    if match["label"] and verb != "status":  # TF Serving's status ignores labels
        raise Refusal(f"Unrecognized servable version label: {unquote(match['label'])}")
    return Call(unquote(match["model"]), version, verb)


def read_document(body: bytes) -> dict[str, Any]:
    """Parses the JSON object of a body. Text after the object is ignored, as in TF Serving."""
    if body.count(b",") + 4 * (body.count(b"{") + body.count(b"[")) > _MAX_VALUES:
        raise Refusal(f"The body has more than {_MAX_VALUES} values", status=413)
    try:
        document, _ = _DECODER.raw_decode(body.decode("utf-8-sig").lstrip())
    except (RecursionError, ValueError) as error:
        raise Refusal(f"JSON Parse error: {error}") from None
    if not isinstance(document, dict):
        raise _value_error(document, "Is not object")
    return document


def _decimal(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("Number too big to be stored in double.")
    return number


_DECODER = json.JSONDecoder(parse_float=_decimal)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


@np.errstate(over="ignore")  # 1e60 becomes Infinity as a float32
def read_predict(document: dict, signatures: Mapping[str, Dtypes]) -> tuple[str, Tensors]:
    """Reads the signature's name, and the arrays by input name, for the dtypes in `signatures`."""
    if not isinstance(name := document.get("signature_name", ""), str):
        expected = "not formatted correctly. 'signature_name' key must be a string value."
        raise _value_error(document, expected)
    name = name or DEFAULT_SIGNATURE
    if name not in signatures:
        raise Refusal(f"Serving signature name: {as_json(name)} not found in signature def")
    if "instances" in document and "inputs" in document:
        expected = "expecting only one of 'inputs' or 'instances' keys to exist "
        raise _value_error(document, f"Not formatted correctly {expected}")
    if "instances" in document:
        return name, _read_rows(document, signatures[name])
    if "inputs" not in document:
        raise Refusal("Missing 'inputs' or 'instances' key")
    columns, inputs = document["inputs"], signatures[name]
    if not _has_names(columns):
        if len(inputs) > 1:
            raise Refusal(f"inputs is a plain value/list, but expecting an object {_SEVERAL}")
        columns = dict.fromkeys(inputs, columns)  # one input needs no name
    for each in inputs:
        if each not in columns:
            raise Refusal(f"Missing named input: {each} in 'inputs' object.")
    return name, {each: _read_array(columns[each], dtype) for each, dtype in inputs.items()}


def _read_rows(document: dict[str, Any], inputs: Dtypes) -> Tensors:
    rows = document["instances"]
    if not isinstance(rows, list):
        raise _value_error(document, "Expecting 'instances' to be an list/array")
    if not rows:
        raise _value_error(document, "No values in 'instances' array")
    is_named = _has_names(rows[0])
    if len(inputs) > 1 and not is_named:
        raise Refusal(f"instances is a plain list, but expecting list of objects {_SEVERAL}")
    if is_named and not all(isinstance(row, dict) and row.keys() == {*inputs} for row in rows):
        _check_rows(rows, inputs)
    try:
        return {
            name: _read_array([row[name] for row in rows] if is_named else rows, dtype)
            for name, dtype in inputs.items()
        }
    except Refusal:
        _check_rows(rows, inputs)
        raise


def _check_rows(rows: list[Any], inputs: Dtypes) -> None:
    """Raises the first error of TF Serving, which reads row by row."""
    firsts: Tensors = {}
    for number, row in enumerate(rows):
        if (is_named := _has_names(row)) != _has_names(rows[0]):
            words = "value/list but got object" if is_named else "object but got list"
            raise Refusal(f"Expecting {words} at item {number} of input list")
        found = f"Failed to process element: {number}"
        for name, item in row.items() if is_named else zip(inputs, [row], strict=True):
            try:
                _check_item(name, item, inputs, firsts)
            except Refusal as error:
                found += f" key: {name}" * is_named
                message = f"{found} of 'instances' list. Error: INVALID_ARGUMENT: {error}"
                raise Refusal(message) from None
        if is_named and len(row) < len(inputs):
            expected = f"keys must be equal to: {','.join(inputs)}"
            raise Refusal(f"{found} of 'instances' list. JSON object: {as_json(row)} {expected}")


def _check_item(name: str, item: object, inputs: Dtypes, firsts: Tensors) -> None:
    if name not in inputs:
        raise Refusal(f"JSON object: does not have named input: {name}")
    array = _read_array(item, inputs[name])
    first = firsts.setdefault(name, array)
    if array.size != first.size:
        raise Refusal(f"Expecting tensor size: {first.size} but got: {array.size}")
    if array.shape != first.shape:
        shapes = [str([*each.shape]).replace(" ", "") for each in (first, array)]
        raise Refusal(f"Expecting shape {shapes[0]} but got: {shapes[1]}")


def _has_names(value: object) -> TypeGuard[dict[str, Any]]:
    """Returns whether `value` maps input names to tensors, unlike {"b64": text}, a string."""
    return isinstance(value, dict) and not (len(value) == 1 and isinstance(value.get("b64"), str))


def _read_array(value: Any, dtype: str) -> np.ndarray:
    """Converts nested lists of one shape."""
    if dtype not in _DTYPES:
        raise Refusal(f"Conversion of JSON Value: {as_json(value)} to type: {dtype}", status=501)
    shape, first, leaves = [], value, []
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) > 32:  # of NumPy's iterators
        raise Refusal(f"Expecting at most 32 dimensions but got: {len(shape)}")
    _collect(value, dtype, shape, leaves)
    values = [string_bytes(leaf) for leaf in leaves] if dtype == "string" else leaves
    try:
        return np.array(values, _DTYPES[dtype][0]).reshape(shape)
    except OverflowError:
        raise _type_error(max(leaves, key=abs), dtype) from None


def _collect(value: Any, dtype: str, shape: list[int], leaves: list, level: int = 0) -> None:
    """Appends the values of nested lists of this shape to `leaves`."""
    types = _DTYPES[dtype][1]
    if not isinstance(value, list):
        if level < len(shape):
            found = f"found at incorrect level: {level + 1} in the JSON DOM."
            raise _value_error(value, f"{found} Expected at level: {len(shape)}")
        if type(value) not in types:
            raise _type_error(value, dtype)
        leaves.append(value)
    elif level == len(shape):
        raise Refusal(f"Encountered list at unexpected level: {level} expected < {level}")
    elif len(value) != shape[level]:
        found = f"Encountered list at unexpected size: {len(value)} at level: {level}"
        raise Refusal(f"{found} expected size: {shape[level]}")
    elif level == len(shape) - 1 and types.issuperset(map(type, value)):
        leaves.extend(value)  # faster
    else:
        for each in value:
            _collect(each, dtype, shape, leaves, level + 1)


def _type_error(value: object, dtype: str) -> Refusal:
    name = _TYPE_NAMES.get(type(value), str(value).replace("None", "Null"))
    return _value_error(value, f"Type: {name} is not of expected type: {dtype}")


def _value_error(value: object, message: str) -> Refusal:
    return Refusal(f"JSON Value: {as_json(value)} {message}")


def string_bytes(value: str | dict[str, Any]) -> bytes:
    """Converts a JSON string, or {"b64": base64 text}, to bytes."""
    if _has_names(value):
        raise _value_error(value, "not formatted correctly for base64 data")
    try:
        if isinstance(value, str):
            return value.encode()
        text = re.sub(r"\s", "", value["b64"])
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except UnicodeEncodeError:
        raise Refusal("JSON Parse error: The surrogate pair in string is invalid.") from None
    except ValueError:  # binascii.Error is a ValueError
        raise Refusal("Unable to base64 decode") from None


def as_json(value: object) -> str:
    """Returns the first 256 characters of a value as JSON, however deeply it is nested."""
    return "".join(islice(_ENCODER.iterencode(value), 256))[:256]


def json_bytes(document: object, *, indent: int | None = None) -> bytes:
    """Serializes a document as JSON in UTF-8, with NaN and Infinity as TF Serving writes them."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return text.encode("utf-8", "replace")  # a message may quote half of a surrogate pair


def metadata_response(model: str, version: int, signatures: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the response to a metadata request, for the `signatures` of a ServedModel."""
    spec = {"name": model, "version": str(version), "signature_name": ""}
    return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}}


def predict_response(outputs: Mapping[str, np.ndarray], *, by_row: bool) -> dict[str, Any]:
    """Returns the response to a predict request: items by row or tensors by output."""
    num_rows = None
    for name, array in outputs.items() if by_row else ():
        if array.ndim == 0:
            raise Refusal(f"Tensor name: {name} has no shape information ")
        if num_rows not in (None, len(array)):
            found = f"Tensor name: {name} has inconsistent batch size: {len(array)}"
            raise Refusal(f"{found} expecting: {num_rows}")
        num_rows = len(array)
    columns = {name: array_to_json(name, array) for name, array in outputs.items()}
    if len(columns) == 1:  # it has no name
        return {"predictions" if by_row else "outputs": next(iter(columns.values()))}
    if not by_row:
        return {"outputs": columns}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def array_to_json(name: str, array: np.ndarray) -> Any:
    """Converts an output to nested lists. If `name` is *_bytes, strings become {"b64": text}."""
    if array.dtype == np.float32:  # nine digits identify a float32
        values = [float(format(value, ".9g")) for value in array.ravel().tolist()]
    elif array.dtype != object:
        return array.tolist()
    elif name.endswith("_bytes"):
        values = [{"b64": base64.b64encode(value).decode()} for value in array.flat]
    else:
        values = [value.decode("utf-8", "replace") for value in array.flat]
    return np.array(values, object).reshape(array.shape).tolist()
