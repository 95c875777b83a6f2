"""Converts classify and regress requests to tf.Examples, and outputs to classes or values.

The error messages and checks follow json_tensor.cc in tensorflow_serving/util, and classifier.cc
and regressor.cc in tensorflow_serving/servables/tensorflow.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.serving.calls import Refusal
from bert_keras.serving.json_text import is_base64, show_json, string_bytes, type_name
from bert_keras.serving.requests import shape_text
from bert_keras.serving.responses import json_values

_KINDS = {"classify": "classification", "regress": "regression"}


def read_examples(document: dict[str, Any]) -> np.ndarray:
    """Serialize the "examples" of a request as tf.Examples.

    Each example also gets the features of "context"; its own features take precedence.

    Args:
        document: The parsed body of the request.

    Returns:
        One serialized tf.Example for each example: [num_examples], bytes objects.

    Raises:
        Refusal: If "examples" is not a non-empty list of objects, or if the values of a feature
            have mixed or unsupported types.
    """
    # Two concatenated protobuf messages are merged when parsed; the second one takes precedence.
    context = _example(document["context"]) if "context" in document else b""
    examples = document.get("examples")
    if not isinstance(examples, list) or not examples:
        raise Refusal(
            f"JSON Value: {show_json(document)} Expecting key 'examples' with a list of objects "
            "that is not empty"
        )
    return np.array([context + _example(example) for example in examples], object)


def _example(features: object) -> bytes:
    from tensorflow.train import Example

    if not isinstance(features, dict):
        raise Refusal(f"Example must be JSON object but got JSON {type_name(features)}")
    example = Example()
    for name, content in features.items():
        try:
            feature = example.features.feature[name]
        except UnicodeEncodeError:
            raise Refusal(f"Feature: {show_json(name)} has a name that is not UTF-8") from None
        for value in content if isinstance(content, list) else [content]:
            _add(feature, name, value)
    return example.SerializeToString()


def _add(feature: Any, name: str, value: Any) -> None:
    if isinstance(value, str) or is_base64(value):
        kind, value = "bytes", string_bytes(value)
    elif isinstance(value, float):
        kind = "float"
    elif isinstance(value, int):
        kind, value = "int64", int(value)  # True becomes 1
    else:
        raise Refusal(f"Feature: {name} has element with unexpected JSON type: {type_name(value)}")
    present = (feature.WhichOneof("kind") or kind).removesuffix("_list")
    if present != kind:
        raise Refusal(f"Unexpected element type in feature: {name} expecting type: {present}")
    if kind == "int64" and value >= 2**63:
        raise Refusal(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
    getattr(feature, f"{kind}_list").value.append(value)


def check_signature(verb: str, signatures: Mapping[str, Any], name: str) -> None:
    """Check that a signature supports a verb.

    Args:
        verb: "classify" or "regress".
        signatures: Maps each signature name to its SignatureDef.
        name: Name of the signature to check.

    Raises:
        Refusal: If there is no such signature, or if its method, inputs or outputs do not fit.
    """
    if name not in signatures:
        raise Refusal(f"No signature was found with the name: {name}")
    signature = signatures[name]
    expected = f"tensorflow/serving/{verb}"
    if signature.method_name != expected:
        raise Refusal(
            f"Expected {_KINDS[verb]} signature method_name to be {expected}. "
            f"Was: {signature.method_name}"
        )
    found = signature.outputs.keys()
    has_valid_outputs = found == {"outputs"} if verb == "regress" else found & {"classes", "scores"}
    if signature.inputs.keys() != {"inputs"} or not has_valid_outputs:
        raise Refusal(
            "Expected one input Tensor, inputs, and the output Tensor outputs of a regression or "
            f"classes and scores of a classification. Signature was: {signature}"
        )


def labels_and_scores(outputs: Mapping[str, np.ndarray], *, num_examples: int) -> list:
    """Convert the outputs of a classification to pairs of label and score.

    Args:
        outputs: Arrays by output name: "classes" (bytes), "scores" (float32) or both, each
            [num_examples, num_classes].
        num_examples: Number of examples in the request.

    Returns:
        For each example a list [(label, score), ...]. A missing label is "" and a missing score
        is 0.

    Raises:
        Refusal: If an array has another dtype or shape.
    """
    arrays = {name: outputs[name] for name in ("classes", "scores") if name in outputs}
    for name, kind, dtype in (("classes", "O", "DT_STRING"), ("scores", "f", "DT_FLOAT")):
        if name in arrays and arrays[name].dtype.kind != kind:
            raise Refusal(f"Expected {name} Tensor of {dtype}. Got: {arrays[name].dtype.name}")
    shapes = {array.shape for array in arrays.values()}
    shape = shapes.pop()
    if shapes or len(shape) != 2 or shape[0] != num_examples:
        found = " and ".join(f"{name} {shape_text(array.shape)}" for name, array in arrays.items())
        raise Refusal(f"Expected Tensor shape: [{num_examples} num_classes] but got {found}")
    labels = json_values("classes", arrays.get("classes", np.full(shape, b"", object)))
    scores = json_values("scores", arrays.get("scores", np.zeros(shape, np.float32)))
    return [list(zip(*example, strict=True)) for example in zip(labels, scores, strict=True)]


def regression_values(outputs: Mapping[str, np.ndarray], *, num_examples: int) -> list:
    """Convert the output of a regression to one number for each example.

    Args:
        outputs: Holds "outputs": float32, [num_examples] or [num_examples, 1].
        num_examples: Number of examples in the request.

    Raises:
        Refusal: If the array has another dtype or shape.
    """
    array = outputs["outputs"]
    if array.shape not in ((num_examples,), (num_examples, 1)) or array.dtype != np.float32:
        raise Refusal(
            f"Expected output Tensor of DT_FLOAT and of shape [{num_examples}] or "
            f"[{num_examples},1]. Got: {array.dtype.name} {shape_text(array.shape)}"
        )
    return json_values("outputs", array.reshape(num_examples))
