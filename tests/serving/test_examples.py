"""JSON features become tf.Example, and outputs become classes and values, as in TF Serving."""

import math

import numpy as np
import pytest
from tensorflow.core.example.example_pb2 import Example
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

from bert_keras.serving.calls import Refusal
from bert_keras.serving.examples import (
    check_signature,
    labels_and_scores,
    read_examples,
    regression_values,
)
from bert_keras.serving.json_text import read_document


def features_of(body):
    examples = read_examples(read_document(body.encode("utf-8", "surrogateescape")))
    return [
        {
            name: list(getattr(feature, feature.WhichOneof("kind")).value)
            if feature.WhichOneof("kind")
            else None
            for name, feature in Example.FromString(example).features.feature.items()
        }
        for example in examples
    ]


def test_features():
    body = (
        '{"examples": [{"text": ["a", {"b64": "/w=="}], "i": [1, true], "f": [0.5, NaN], "e": []},'
        '{"text": "\udcff", "i": -9223372036854775808, "f": 1e60}]}'
    )
    first, second = features_of(body)
    assert math.isnan(first["f"].pop())
    assert first == {"text": [b"a", b"\xff"], "i": [1, 1], "f": [0.5], "e": None}
    assert second == {"text": [b"\xff"], "i": [-(2**63)], "f": [math.inf]}


def test_a_context_is_in_every_example_and_the_example_takes_precedence():
    body = '{"context": {"a": 1, "b": 1}, "examples": [{}, {"b": 2}]}'
    assert features_of(body) == [{"a": [1], "b": [1]}, {"a": [1], "b": [2]}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", "JSON Value: {} Expecting key 'examples' with a list of objects that is not empty"),
        ('{"examples": 1}', "Expecting key 'examples' with a list of objects"),
        ('{"examples": []}', "Expecting key 'examples' with a list of objects"),
        ('{"examples": [1]}', "Example must be JSON object but got JSON Number"),
        ('{"context": [], "examples": 1}', "Example must be JSON object but got JSON Array"),
        ('{"examples": [{"x": null}]}', "Feature: x has element with unexpected JSON type: Null"),
        ('{"examples": [{"x": [[1]]}]}', "Feature: x has element with unexpected JSON type: Array"),
        ('{"examples": [{"x": {}}]}', "Feature: x has element with unexpected JSON type: Object"),
        (
            '{"examples": [{"x": [1, 0.5]}]}',
            "Unexpected element type in feature: x expecting type: int64",
        ),
        (
            '{"examples": [{"x": ["a", true]}]}',
            "Unexpected element type in feature: x expecting type: bytes",
        ),
        (
            '{"examples": [{"x": 9223372036854775808}]}',
            "Feature: x has uint64_t element. Only int64_t is supported.",
        ),
        ('{"examples": [{"x": {"b64": "a"}}]}', "Unable to base64 decode"),
        ('{"examples": [{"\udcff": 1}]}', "has a name that is not UTF-8"),
    ],
)
def test_invalid_examples_are_refused(body, message):
    with pytest.raises(Refusal) as refusal:
        read_examples(read_document(body.encode("utf-8", "surrogateescape")))
    assert message in str(refusal.value)


def signature(method, inputs, outputs):
    made = SignatureDef(method_name=f"tensorflow/serving/{method}")
    for name in inputs:
        made.inputs[name].name = name
    for name in outputs:
        made.outputs[name].name = name
    return {"s": made}


@pytest.mark.parametrize(
    ("verb", "inputs", "outputs"),
    [
        ("classify", ["inputs", "b"], ["scores"]),
        ("classify", ["a"], ["scores"]),
        ("classify", ["inputs"], ["y"]),
        ("regress", ["inputs"], ["outputs", "y"]),
    ],
)
def test_unsuitable_signatures_are_refused(verb, inputs, outputs):
    with pytest.raises(Refusal, match="Expected one input Tensor, inputs, and the output Tensor"):
        check_signature(verb, signature(verb, inputs, outputs), "s")


def test_classes_with_labels_scores_or_both():
    classes = np.array([[b"no", b"yes"], [b"no", b"yes"]], object)
    scores = np.float32([[0.25, 0.75], [1, 0]])
    both = {"classes": classes, "scores": scores}
    assert labels_and_scores(both, num_examples=2) == [
        [("no", 0.25), ("yes", 0.75)],
        [("no", 1), ("yes", 0)],
    ]
    assert labels_and_scores({"scores": scores}, num_examples=2)[0] == [("", 0.25), ("", 0.75)]
    assert labels_and_scores({"classes": classes}, num_examples=2)[1] == [("no", 0), ("yes", 0)]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"scores": np.zeros(2, np.float32)}, r"[2 num_classes] but got scores [2]"),
        ({"scores": np.zeros([2, 1], np.int32)}, "Expected scores Tensor of DT_FLOAT. Got: int32"),
        ({"scores": np.zeros([3, 1], np.float32)}, "[2 num_classes] but got scores [3,1]"),
        (
            {"classes": np.full([2, 3], b"", object), "scores": np.zeros([2, 1], np.float32)},
            "[2 num_classes] but got classes [2,3] and scores [2,1]",
        ),
    ],
)
def test_invalid_classification_outputs_are_refused(outputs, message):
    with pytest.raises(Refusal) as refusal:
        labels_and_scores(outputs, num_examples=2)
    assert message in str(refusal.value)


def test_values():
    for shape in ([2], [2, 1]):
        array = np.arange(2, dtype=np.float32).reshape(shape)
        assert regression_values({"outputs": array}, num_examples=2) == [0, 1]
    for array, shape_text in (
        (np.zeros([2, 2], np.float32), "float32 [2,2]"),
        (np.zeros(3, np.float32), "float32 [3]"),
        (np.zeros(2), "float64 [2]"),
    ):
        with pytest.raises(Refusal) as refusal:
            regression_values({"outputs": array}, num_examples=2)
        assert str(refusal.value).endswith(f"of shape [2] or [2,1]. Got: {shape_text}")
