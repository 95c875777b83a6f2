"""A predict request: body and signature inputs come in, feed arrays by name go out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bert_keras.serving.json_text import read_json, show_json
from bert_keras.serving.protocol import Refused
from bert_keras.serving.tensors import Column, is_base64, read_tensor

DEFAULT_SIGNATURE = "serving_default"


@dataclass(frozen=True)
class PredictRequest:
    """What a body asks for. `form`: "instances" (rows) or "inputs" (columns)."""

    signature_name: str
    form: str
    tensors: dict[str, np.ndarray]


def read_predict(body: bytes, *, inputs_of: Callable[[str], Mapping[str, str]]) -> PredictRequest:
    """The feed arrays of `body`, by input name.

    `inputs_of` gives the inputs of a signature as {name: dtype}, dtypes named as TensorFlow's
    DataType without "DT_" ("float", "int64", "string"); strings become object arrays of bytes.
    Raises Refused with the sentence of tensorflow_serving/util/json_tensor.cc.
    """
    document = read_document(body)
    asked_name = read_signature_name(document)
    signature_name = asked_name or DEFAULT_SIGNATURE
    inputs = inputs_of(signature_name)
    if not inputs:
        raise Refused(f"Failed to get input map for signature: {asked_name or 'DEFAULT'}")
    forms = [form for form in ("instances", "inputs") if form in document]
    if not forms:
        raise Refused("Missing 'inputs' or 'instances' key")
    if len(forms) == 2:
        raise Refused(
            f"JSON Value: {show_json(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    read = _read_rows if forms == ["instances"] else _read_columns
    return PredictRequest(signature_name, forms[0], read(document, inputs))


def input_dtypes(signatures: Mapping, name: str) -> dict[str, str]:
    """{input name: dtype} of one of `signatures` (SignatureDef by name), as `read_predict` wants
    them; raises Refused where there is none of the name."""
    from tensorflow.core.framework.types_pb2 import DataType

    if name not in signatures:
        raise Refused(f'Serving signature name: "{name}" not found in signature def')
    return {
        key: DataType.Name(info.dtype).removeprefix("DT_").lower()
        for key, info in sorted(signatures[name].inputs.items())
    }


def read_document(body: bytes) -> dict[str, object]:
    """The JSON object of a request body; raises Refused where it is none."""
    document = read_json(body)
    if not isinstance(document, dict):
        raise Refused(f"JSON Value: {show_json(document)} Is not object")
    return document


def read_signature_name(document: dict[str, object]) -> str:
    """The signature that the document names, or ""; raises Refused where it is no string."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise Refused(
            f"JSON Value: {show_json(document)} not formatted correctly. 'signature_name' key must "
            "be a string value."
        )
    return name


def _read_rows(document: dict[str, object], inputs: Mapping[str, str]) -> dict[str, np.ndarray]:
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
    columns = {name: Column(dtype) for name, dtype in inputs.items()}
    if _is_named(instances[0]):
        _fill_named(columns, instances)
    else:
        _fill_unnamed(columns, instances)
    return {name: column.array(len(instances)) for name, column in columns.items()}


def _fill_named(columns: dict[str, Column], instances: list[object]) -> None:
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


def _fill_unnamed(columns: dict[str, Column], instances: list[object]) -> None:
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


def _read_columns(document: dict[str, object], inputs: Mapping[str, str]) -> dict[str, np.ndarray]:
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
    return {name: read_tensor(given[name], dtype) for name, dtype in inputs.items()}


def _is_named(value: object) -> bool:
    """Whether `value` maps names to tensors: an object, but not {"b64": text}."""
    return isinstance(value, dict) and not is_base64(value)
