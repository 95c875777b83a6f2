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
from typing import Any, TypeGuard
from urllib.parse import unquote

import numpy as np

DEFAULT_SIGNATURE = "serving_default"
Tensors = dict[str, np.ndarray]  # by name
Dtypes = Mapping[str, str]  # keys of `_DTYPES` by the name of the tensor

_PATH = re.compile(
    r"/v1/models/(?P<model>[^/:]+)"
    r"(?:/versions/(?P<version>[0-9]{1,18})|/labels/(?P<label>[^/:]+))?(?P<verb>/metadata|:predict)?"
)
_VERBS = {"GET": "status", "GET /metadata": "metadata", "POST :predict": "predict"}
# HTTP status -> name of TensorFlow's error code
CODES = {
    **{200: "OK", 400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED"},
    **{408: "DEADLINE_EXCEEDED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"},
}
_MAX_VALUES = 2**20  # of a body; a list or an object, which takes 64 bytes, counts as four
_TYPE_NAMES = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
# TensorFlow's name of a dtype, in lower case -> NumPy's dtype and the Python types of its values
_DTYPES: dict[str, tuple[Any, set[type]]] = {
    **{"float": (np.float32, {int, float}), "double": (np.float64, {int, float})},
    **{"bool": (np.bool_, {bool}), "string": (object, {str, dict})},
    **{f"int{bits}": (f"int{bits}", {int}) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (f"uint{bits}", {int}) for bits in (8, 16, 32, 64)},
}


class Refusal(Exception):
    """A request that the server rejects.

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
    if not match or not verb:
        raise Refusal(f"Malformed request: {method} {path}")
    if match["label"] and verb != "status":  # TF Serving's status ignores labels
        raise Refusal(f"Unrecognized servable version label: {unquote(match['label'])}")
    version = int(match["version"]) if match["version"] else None
    return Call(unquote(match["model"]), version, verb)


def read_document(body: bytes) -> dict[str, Any]:
    """Parses the JSON object of a body. Text after the object is ignored, as in TF Serving."""
    if body.count(b",") + 4 * (body.count(b"{") + body.count(b"[")) > _MAX_VALUES:
        raise Refusal(f"The body has more than {_MAX_VALUES} values", status=413)
    try:
        document, _ = _DECODER.raw_decode(body.decode("utf-8-sig").lstrip())
    except ValueError as error:
        raise Refusal(f"JSON Parse error: {error}") from None
    except RecursionError:
        raise Refusal("JSON Parse error: the values are nested too deeply") from None
    if not isinstance(document, dict):
        raise Refusal(f"JSON Value: {_as_json(document)} Is not object")
    return document


def _decimal(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("Number too big to be stored in double.")
    return number


_DECODER = json.JSONDecoder(parse_float=_decimal)


def read_predict(document: dict, signatures: Mapping[str, Dtypes]) -> tuple[str, Tensors]:
    """Reads the signature's name, and the arrays by input name, for the dtypes in `signatures`."""
    name = document.get("signature_name") or DEFAULT_SIGNATURE
    if not isinstance(name, str) or name not in signatures:
        raise Refusal(f"Serving signature name: {_as_json(name)} not found in signature def")
    if "instances" in document and "inputs" in document:
        raise Refusal("expecting only one of 'inputs' or 'instances' keys to exist")
    if "instances" in document:
        return name, _read_rows(document, signatures[name])
    if "inputs" not in document:
        raise Refusal("Missing 'inputs' or 'instances' key")
    columns, inputs = document["inputs"], signatures[name]
    if not _has_names(columns):
        columns = dict.fromkeys(list(inputs)[:1], columns)  # one input needs no name
    for each in inputs:
        if each not in columns:
            raise Refusal(f"Missing named input: {each} in 'inputs' object.")
    return name, {each: _read_array(columns[each], dtype) for each, dtype in inputs.items()}


def _read_rows(document: dict[str, Any], inputs: Dtypes) -> Tensors:
    rows = document["instances"]
    if not isinstance(rows, list):
        raise Refusal(f"JSON Value: {_as_json(document)} Expecting 'instances' to be an list/array")
    if not rows:
        raise Refusal(f"JSON Value: {_as_json(document)} No values in 'instances' array")
    if not _has_names(rows[0]):
        if len(inputs) > 1:
            raise Refusal(
                "instances is a plain list, but expecting list of objects as multiple input "
                "tensors required as per tensorinfo_map"
            )
        return {name: _read_items(rows, dtype) for name, dtype in inputs.items()}
    for number, row in enumerate(rows):
        if not _has_names(row):
            raise Refusal(f"Expecting object but got list at item {number} of input list")
        for name in row:
            if name not in inputs:
                message = f"JSON object: does not have named input: {name}"
                raise _row_error(number, message, key=name)
        if len(row) < len(inputs):
            raise Refusal(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{_as_json(row)} keys must be equal to: {','.join(inputs)}"
            )
    columns = {name: [row[name] for row in rows] for name in inputs}
    return {name: _read_items(columns[name], dtype, key=name) for name, dtype in inputs.items()}


def _has_names(value: object) -> TypeGuard[dict[str, Any]]:
    """Returns whether `value` maps input names to tensors, unlike {"b64": text}, a string."""
    return isinstance(value, dict) and value.keys() != {"b64"}


def _row_error(number: int, message: object, *, key: str) -> Refusal:
    element = f"{number} key: {key}" if key else number
    found = f"Failed to process element: {element} of 'instances' list."
    return Refusal(f"{found} Error: INVALID_ARGUMENT: {message}")


def _read_items(items: list[Any], dtype: str, *, key: str = "") -> np.ndarray:
    """Returns the values of one input, one item for each row; all items have the same shape."""
    try:
        return _read_array(items, dtype)
    except Refusal:
        first = None
        for number, item in enumerate(items):  # finds the item that is wrong
            try:
                array = _read_array(item, dtype)
                first = array if first is None else first
                if array.size != first.size:
                    raise Refusal(f"Expecting tensor size: {first.size} but got: {array.size}")
                if array.shape != first.shape:
                    raise Refusal(f"Expecting shape {first.shape} but got: {array.shape}")
            except Refusal as error:
                raise _row_error(number, error, key=key) from None
        raise


def _read_array(value: Any, dtype: str) -> np.ndarray:
    """Converts nested lists of one shape."""
    if dtype not in _DTYPES:
        raise Refusal(f"Conversion of JSON Value: {_as_json(value)} to type: {dtype}", status=501)
    numpy_dtype, types = _DTYPES[dtype]
    try:
        array = np.array(value, object)  # ragged lists stay lists
        leaves = [*array.flat]  # at most 32 dimensions
    except (RuntimeError, ValueError) as error:
        raise Refusal(f"Expecting lists of one shape: {error}") from None
    if not types.issuperset(map(type, leaves)):
        raise _type_error(next(leaf for leaf in leaves if type(leaf) not in types), dtype)
    if dtype == "string":
        strings = np.empty(array.size, object)
        strings[:] = [string_bytes(leaf) for leaf in leaves]
        return strings.reshape(array.shape)
    try:
        with np.errstate(over="ignore"):  # 1e60 becomes Infinity as a float32
            return array.astype(numpy_dtype)
    except OverflowError:
        raise _type_error(max(leaves, key=abs), dtype) from None


def _type_error(value: object, dtype: str) -> Refusal:
    name = _TYPE_NAMES.get(type(value), str(value).replace("None", "Null"))
    return Refusal(f"JSON Value: {_as_json(value)} Type: {name} is not of expected type: {dtype}")


def string_bytes(value: str | dict[str, Any]) -> bytes:
    """Converts a JSON string, or {"b64": base64 text}, to bytes."""
    if _has_names(value):
        raise Refusal(f"JSON Value: {_as_json(value)} not formatted correctly for base64 data")
    try:
        if isinstance(value, str):
            return value.encode()
        text = re.sub(r"\s", "", value["b64"])
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except UnicodeEncodeError:
        raise Refusal("JSON Parse error: The surrogate pair in string is invalid.") from None
    except (TypeError, ValueError):  # binascii.Error is a ValueError
        raise Refusal("Unable to base64 decode") from None


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:256]  # in a message


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
