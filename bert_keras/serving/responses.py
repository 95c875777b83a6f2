"""Writes the JSON bodies of answers from output arrays, with the digits of TF Serving."""

import base64
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_keras.serving.calls import Refused

# %g with six digits, or with enough to read the same number again: json_tensor.cc, WriteDecimal.
_FULL_DIGITS = {"float16": (np.float32, 9), "float32": (np.float32, 9), "float64": (float, 17)}


def json_body(document: object) -> bytes:
    """Indented UTF-8 JSON; bytes that were read as surrogate escapes are written unchanged."""
    text = json.dumps(document, indent=4, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


def error_body(sentence: str) -> bytes:
    """{"error": sentence}; nothing where TF Serving sends nothing."""
    return json_body({"error": sentence}) if sentence else b""


def metadata_body(model: str, *, version: int, signatures: Mapping[str, Any]) -> bytes:
    """The signatures (SignatureDef by name) as TF Serving shows them."""
    from google.protobuf.json_format import MessageToDict

    shown = {
        name: MessageToDict(
            signature, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for name, signature in signatures.items()
    }
    spec = {"name": model, "version": str(version), "signature_name": ""}
    metadata = {"signature_def": {"signature_def": shown}}
    return json_body({"model_spec": spec, "metadata": metadata})


def rows_body(outputs: Mapping[str, np.ndarray]) -> bytes:
    """{"predictions": [one item an instance]}; with several outputs an item is an object.

    Raises:
        Refused: where an output is a scalar or the outputs differ in their first dimension.
    """
    num_rows = 0
    for number, (name, array) in enumerate(outputs.items()):
        if array.ndim == 0:
            raise Refused(f"Tensor name: {name} has no shape information ")
        if number and num_rows != len(array):
            raise Refused(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: "
                f"{num_rows}"
            )
        num_rows = len(array)
    columns = {
        name: [_nested(row, array.shape[1:]) for row in _scalars(name, array, num_rows)]
        for name, array in outputs.items()
    }
    rows = [
        _named(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
    ]
    return _body("predictions", f"[{_lines(rows)}]")


def columns_body(outputs: Mapping[str, np.ndarray]) -> bytes:
    """{"outputs": tensor}, or with several outputs {"outputs": {name: tensor}}."""
    tensors = {
        name: _nested(_scalars(name, array, 1)[0], array.shape) for name, array in outputs.items()
    }
    return _body("outputs", _named(tensors))


def classes_body(examples: list[list[tuple[bytes, float]]]) -> bytes:
    """{"results": [[[label, score], ...] an example]}."""
    rows = [
        "["
        + ", ".join(f"[{_string_text(label)}, {_score(score)}]" for label, score in example)
        + "]"
        for example in examples
    ]
    return _body("results", f"[{_lines(rows)}]")


def values_body(values: np.ndarray) -> bytes:
    """{"results": [one value an example]}."""
    return _body("results", f"[{', '.join(map(_score, values))}]")


def _body(key: str, text: str) -> bytes:
    return f'{{\n    "{key}": {text}\n}}'.encode("utf-8", "surrogateescape")


def _lines(items: list[str]) -> str:
    return ",".join(f"\n        {item}" for item in items) + "\n    "


def _named(texts: dict[str, str]) -> str:
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}"


def _nested(texts: list[str], shape: tuple[int, ...]) -> str:
    """The scalars of one tensor, in order, as nested JSON lists of `shape`."""
    if not shape:
        return texts[0]
    step = math.prod(shape[1:])
    parts = [_nested(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(parts)}]"


def _scalars(name: str, array: np.ndarray, num_rows: int) -> list[list[str]]:
    """The JSON text of every scalar of `array`, cut into `num_rows` equal lists."""
    text = _writer(name, array.dtype)
    rows = array.reshape(num_rows, array.size // max(num_rows, 1))
    return [[text(value) for value in row.tolist()] for row in rows]


def _writer(name: str, dtype: np.dtype) -> Callable[[Any], str]:
    if dtype.name in _FULL_DIGITS:
        kind, digits = _FULL_DIGITS[dtype.name]
        return lambda value: _decimal(value, kind, digits)
    if dtype.kind == "O":
        return _base64_text if name.endswith("_bytes") else _string_text
    if dtype.kind in "iub":
        return json.dumps
    raise Refused(f"Failed to write JSON value for tensor type: {dtype.name}")


def _decimal(value: float, kind: type, digits: int) -> str:
    if not math.isfinite(value):
        return json.dumps(value)
    text = f"{value:.6g}"
    if kind(text) != value:
        text = f"{value:.{digits}g}"
    return text if "." in text or "e" in text else f"{text}.0"


def _score(value: float) -> str:
    return _decimal(float(value), *_FULL_DIGITS["float32"])


def _string_text(value: bytes) -> str:
    return json.dumps(value.decode("utf-8", "surrogateescape"), ensure_ascii=False)


def _base64_text(value: bytes) -> str:
    return json.dumps({"b64": base64.b64encode(value).decode()})
