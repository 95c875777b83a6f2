"""Converts the outputs and the signatures of a model to the JSON of TF Serving's REST API."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.serving.requests import Refusal


def json_bytes(document: object, *, indent: int | None = None) -> bytes:
    """Serializes a document as JSON in UTF-8, with NaN and Infinity as TF Serving writes them."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return text.encode("utf-8", "replace")  # a message may quote half of a surrogate pair


def metadata(model: str, *, version: int, signatures: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the response to a metadata request, for SignatureDefs by name."""
    from google.protobuf.json_format import MessageToDict

    shown = {
        name: MessageToDict(
            signature, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for name, signature in signatures.items()
    }
    spec = {"name": model, "version": str(version), "signature_name": ""}
    return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": shown}}}


def predictions(outputs: Mapping[str, np.ndarray], *, by_row: bool) -> dict[str, Any]:
    """Returns the response to a predict request, in which a single output has no name.

    It has one item for each row, as for "instances", or a tensor for each output, as for "inputs".
    """
    num_rows = None
    for name, array in outputs.items() if by_row else ():
        if array.ndim == 0:
            raise Refusal(f"Tensor name: {name} has no shape information ")
        if num_rows not in (None, len(array)):
            found = f"Tensor name: {name} has inconsistent batch size: {len(array)}"
            raise Refusal(f"{found} expecting: {num_rows}")
        num_rows = len(array)
    columns = {name: json_values(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        return {"predictions" if by_row else "outputs": next(iter(columns.values()))}
    if not by_row:
        return {"outputs": columns}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def json_values(name: str, array: np.ndarray) -> Any:
    """Converts an output to nested lists; in one named *_bytes, strings become {"b64": text}."""
    if array.dtype == np.float32:  # nine digits identify a float32
        values = [float(format(value, ".9g")) for value in array.ravel().tolist()]
        return np.array(values).reshape(array.shape).tolist()
    if array.dtype != object:
        return array.tolist()
    is_binary = name.endswith("_bytes")
    values = [
        {"b64": base64.b64encode(value).decode()} if is_binary else value.decode("utf-8", "replace")
        for value in array.flat
    ]
    return np.array(values, object).reshape(array.shape).tolist()
