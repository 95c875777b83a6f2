"""Reads the tf.Examples of classify and regress requests, and their outputs as classes or values.

Sentences and checks are those of tensorflow_serving/util/json_tensor.cc and
servables/tensorflow/classifier.cc and regressor.cc.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.serving.calls import Refused
from bert_keras.serving.json_text import base64_bytes, is_base64, show_json, type_name
from bert_keras.serving.requests import DEFAULT_SIGNATURE, read_signature_name, shape_text

_KINDS = {"classify": "classification", "regress": "regression"}


def read_examples(document: dict[str, Any]) -> tuple[str, np.ndarray]:
    """Return the signature's name and the serialized tf.Examples of a request's document.

    The features of its "context" are in every example.

    Raises:
        Refused: where "examples" is no filled list of objects or a feature's values do not fit.
    """
    signature_name = read_signature_name(document) or DEFAULT_SIGNATURE
    # A serialized message that follows another adds its features to it, and wins.
    context = _example(document["context"]) if "context" in document else b""
    examples = document.get("examples")
    shown = f"JSON Value: {show_json(document)}"
    if "examples" not in document:
        raise Refused(
            f"{shown} When method is classify, key 'examples' is expected and was not found"
        )
    if not isinstance(examples, list):
        raise Refused(f"{shown} Expecting 'examples' value to be an list/array")
    if not examples:
        raise Refused(f"{shown} 'examples' value is an empty array")
    serialized = np.empty([len(examples)], object)
    serialized[:] = [context + _example(example) for example in examples]
    return signature_name, serialized


def _example(features: object) -> bytes:
    from tensorflow.train import Example

    if not isinstance(features, dict):
        raise Refused(f"Example must be JSON object but got JSON {type_name(features)}")
    example = Example()
    for name, content in features.items():
        try:
            feature = example.features.feature[name]
        except UnicodeEncodeError:
            raise Refused(f"Feature: {show_json(name)} has a name that is not UTF-8") from None
        for value in content if isinstance(content, list) else [content]:
            _add(feature, name, value)
    return example.SerializeToString()


def _add(feature: Any, name: str, value: Any) -> None:
    if isinstance(value, str):
        kind, stored = "bytes", value.encode("utf-8", "surrogateescape")
    elif isinstance(value, dict) and is_base64(value):
        kind, stored = "bytes", base64_bytes(value)
    elif isinstance(value, float):
        kind, stored = "float", value
    elif isinstance(value, int):
        kind, stored = "int64", int(value)
    else:
        raise Refused(f"Feature: {name} has element with unexpected JSON type: {type_name(value)}")
    present = (feature.WhichOneof("kind") or kind).removesuffix("_list")
    if present != kind:
        raise Refused(f"Unexpected element type in feature: {name} expecting type: {present}")
    if isinstance(stored, int) and stored >= 2**63:
        raise Refused(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
    getattr(feature, f"{kind}_list").value.append(stored)


def check_signature(verb: str, signatures: Mapping[str, Any], name: str) -> None:
    """Refuse a signature (SignatureDef by name) that does not answer `verb`."""
    kind = _KINDS[verb]
    if name not in signatures:
        raise Refused(f"No signature was found with the name: {name}")
    signature = signatures[name]
    expected = f"tensorflow/serving/{verb}"
    if signature.method_name != expected:
        raise Refused(
            f"Expected {kind} signature method_name to be {expected}. Was: {signature.method_name}"
        )
    if len(signature.inputs) != 1:
        raise Refused("Expected one input Tensor.")
    if "inputs" not in signature.inputs:
        raise Refused(f"No {kind} inputs found in SignatureDef: {signature}")
    if verb == "regress" and signature.outputs.keys() != {"outputs"}:
        raise Refused("Expected one output Tensor.")
    if verb == "classify" and not signature.outputs.keys() & {"classes", "scores"}:
        raise Refused(
            'Expected classification signature outputs to contain at least one of "classes" or '
            f'"scores". Signature was: {signature}'
        )


def classes_of(
    outputs: Mapping[str, np.ndarray], *, num_examples: int
) -> list[list[tuple[bytes, float]]]:
    """(label, score) of every class of every example; "" and 0 for what has no output."""
    given = {name: outputs[name] for name in ("classes", "scores") if name in outputs}
    for name, kind, dtype in (("classes", "O", "DT_STRING"), ("scores", "f", "DT_FLOAT")):
        array = given.get(name)
        if array is None:
            continue
        if array.ndim != 2:
            raise Refused(
                f"Expected Tensor shape: [batch_size num_classes] but got {shape_text(array.shape)}"
            )
        if array.dtype.kind != kind:
            raise Refused(f"Expected {name} Tensor of {dtype}. Got: {array.dtype.name}")
        if len(array) != num_examples:
            raise Refused(f"Expected {name} output batch size of {num_examples}. Got: {len(array)}")
    if len({array.shape for array in given.values()}) > 1:
        sizes = [given[name].shape[1] for name in ("classes", "scores")]
        raise Refused(
            f"Tensors class and score should match in dim_size(1). Got {sizes[0]} vs. {sizes[1]}"
        )
    shape = next(iter(given.values())).shape
    labels = given.get("classes", np.full(shape, b"", object))
    scores = given.get("scores", np.zeros(shape, np.float32))
    return [list(zip(*row, strict=True)) for row in zip(labels, scores, strict=True)]


def values_of(outputs: Mapping[str, np.ndarray], *, num_examples: int) -> np.ndarray:
    """float32, one an example."""
    array = outputs["outputs"]
    if array.ndim != 1 and (array.ndim != 2 or array.shape[1] != 1):
        raise Refused(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            f"{shape_text(array.shape)}"
        )
    if len(array) != num_examples:
        raise Refused(
            f"Input batch size did not match output batch size: {num_examples} vs. {len(array)}"
        )
    if array.dtype != np.float32:
        raise Refused(f"Expected output Tensor of DT_FLOAT.  Got: {array.dtype.name}")
    return array.reshape(num_examples)
