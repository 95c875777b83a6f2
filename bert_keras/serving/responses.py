"""Converts output arrays to the JSON bodies of responses, with as many digits as TF Serving."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.serving.calls import Refusal


def json_body(document: object) -> bytes:
    """Serialize a document as indented UTF-8 JSON.

    Surrogate escapes, which `read_document` produces, become the original bytes again.
    """
    text = json.dumps(document, indent=4, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


def compact_body(document: object) -> bytes:
    """Serialize a document as JSON on one line, with the characters of `json_body`."""
    return _json_text(document).encode("utf-8", "surrogateescape")


def error_body(message: str) -> bytes:
    """Return {"error": message} as JSON, or an empty body for an empty message."""
    return json_body({"error": message}) if message else b""


def metadata_body(model: str, *, version: int, signatures: Mapping[str, Any]) -> bytes:
    """Return the response to a metadata request.

    Args:
        model: Name of the model.
        version: Number of the version.
        signatures: Maps each signature name to its SignatureDef.
    """
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
    """Return {"predictions": [...]}, with one item for each instance, as JSON.

    Args:
        outputs: Arrays by output name, with one row for each instance. If there are several
            outputs, each item is an object {output name: value}.

    Raises:
        Refusal: If an output is a scalar, if the outputs differ in their first dimension, or if
            JSON cannot represent a dtype.
    """
    num_rows = None
    for name, array in outputs.items():
        if array.ndim == 0:
            raise Refusal(f"Tensor name: {name} has no shape information ")
        if num_rows not in (None, len(array)):
            raise Refusal(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} expecting: "
                f"{num_rows}"
            )
        num_rows = len(array)
    columns = {name: json_values(name, array) for name, array in outputs.items()}
    rows = zip(*columns.values(), strict=True)
    return _rows_body(
        "predictions", [_one_or_named(dict(zip(columns, row, strict=True))) for row in rows]
    )


def columns_body(outputs: Mapping[str, np.ndarray]) -> bytes:
    """Return {"outputs": tensor}, or for several outputs {"outputs": {name: tensor}}, as JSON."""
    tensors = {name: json_values(name, array) for name, array in outputs.items()}
    return _body("outputs", _json_text(_one_or_named(tensors)))


def results_body(results: list) -> bytes:
    """Return {"results": [...]} as JSON.

    Args:
        results: One item for each example: a number, or a list of pairs [label, score].
    """
    return _rows_body("results", results)


def _body(key: str, text: str) -> bytes:
    return f'{{\n    "{key}": {text}\n}}'.encode("utf-8", "surrogateescape")


def _rows_body(key: str, rows: list) -> bytes:
    lines = ",".join(f"\n        {_json_text(row)}" for row in rows)
    return _body(key, f"[{lines}\n    ]")


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _one_or_named(values: dict[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else values


def json_values(name: str, array: np.ndarray) -> Any:
    """Convert an output to nested lists whose numbers have as many digits as in TF Serving.

    Args:
        name: Name of the output. If it ends in "_bytes", strings become {"b64": text}.
        array: The output.

    Raises:
        Refusal: If JSON cannot represent the dtype.
    """
    if array.dtype.kind in "iub" or array.dtype == np.float64:
        return array.tolist()
    flat = array.ravel().tolist()
    if array.dtype.kind == "f":
        # Six significant digits, or nine if six do not give the same float32, as in WriteDecimal of
        # json_tensor.cc.
        short, full = ([float(f"{value:{form}}") for value in flat] for form in (".6g", ".9g"))
        values = np.where(np.array(short, np.float32) == array.ravel(), short, full)
    elif array.dtype.kind != "O":
        raise Refusal(f"Failed to write JSON value for tensor type: {array.dtype.name}")
    elif name.endswith("_bytes"):
        values = np.array([{"b64": base64.b64encode(value).decode()} for value in flat], object)
    else:
        values = np.array([value.decode("utf-8", "surrogateescape") for value in flat], object)
    return values.reshape(array.shape).tolist()
