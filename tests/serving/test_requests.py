"""Bodies and paths are read as TF Serving does, beyond the recorded requests."""

import math
import time

import numpy as np
import pytest

from bert_keras.serving.requests import Call, Refusal, read_call, read_document, read_predict
from bert_keras.serving.responses import json_bytes, predictions

SIGNATURES = {
    "serving_default": {"x": "float"},
    "two": {"ids": "int32", "text": "string"},
    "flag": {"b": "bool"},
    "half": {"h": "half"},
}


def tensors(**document):
    _, arrays = read_predict(document, SIGNATURES)
    return {name: (array.dtype.name, array.tolist()) for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"instances": [1, 2.5]}, {"x": ("float32", [1.0, 2.5])}),
        ({"instances": [[[1]], [[2]]], "other": {}}, {"x": ("float32", [[[1.0]], [[2.0]]])}),
        ({"signature_name": "", "inputs": {"x": [[1.0]], "z": 1}}, {"x": ("float32", [[1.0]])}),
        ({"inputs": 3}, {"x": ("float32", 3.0)}),
        ({"inputs": []}, {"x": ("float32", [])}),
        ({"inputs": [1e60]}, {"x": ("float32", [math.inf])}),
        ({"signature_name": "flag", "inputs": [True]}, {"b": ("bool", [True])}),
        (
            {
                "signature_name": "two",
                "instances": [
                    {"ids": [1, 2], "text": "é"},
                    {"text": {"b64": "SGVsbG8"}, "ids": [-3, 4]},
                ],
            },
            {
                "ids": ("int32", [[1, 2], [-3, 4]]),
                "text": ("object", ["é".encode(), b"Hello"]),
            },
        ),
        (
            {"signature_name": "two", "inputs": {"ids": [[7]], "text": [["a", "b"]]}},
            {"ids": ("int32", [[7]]), "text": ("object", [[b"a", b"b"]])},
        ),
    ],
)
def test_rows_and_columns(document, expected):
    assert tensors(**document) == expected


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"instances": [1.0], "inputs": 1}, "only one of 'inputs' or 'instances'"),
        ({"signature_name": 3, "inputs": 1}, ": 3 not found"),
        ({"inputs": [None]}, "null Type: Null is not of expected type: float"),
        ({"inputs": [{"x": 1}]}, "Type: Object is not of expected type: float"),
        ({"instances": [{"x": 1}, 2]}, "Expecting object but got list at item 1"),
        ({"instances": [2, {"x": 1}]}, "element: 1 .* Type: Object"),
        ({"instances": [[1, 2], [[1, 2]]]}, "element: 1 .*Expecting shape"),
        ({"inputs": [[1], [1, 2]]}, "Type: Array"),
        ({"inputs": [1, [2]]}, "Type: Array"),
        ({"inputs": [10**400]}, "not of expected type: float"),
        ({"signature_name": "two", "inputs": [[1, 2]]}, "Missing named input: text"),
        ({"signature_name": "two", "inputs": {"ids": 2**31, "text": "a"}}, "2147483648 Type"),
        ({"signature_name": "two", "inputs": {"ids": [1, True], "text": "a"}}, "Type: True"),
        ({"signature_name": "two", "inputs": {"ids": 1, "text": 1}}, "expected type: string"),
        ({"signature_name": "two", "inputs": {"ids": 1, "text": {"b64": "a"}}}, "base64"),
        ({"signature_name": "two", "inputs": {"ids": 1, "text": {"b64": 1}}}, "base64"),
        ({"signature_name": "two", "inputs": {"ids": 1, "text": {"b": 1}}}, "base64"),
        ({"signature_name": "two", "inputs": {"ids": 1, "text": "\ud800"}}, "surrogate"),
        ({"signature_name": "half", "inputs": 1}, "to type: half"),
        ({"inputs": eval("[" * 80 + "1" + "]" * 80)}, "one shape"),  # NumPy's iterator has 32
    ],
)
def test_values_of_a_wrong_type_or_shape_are_refused(document, message):
    with pytest.raises(Refusal, match=message):
        tensors(**document)


def test_documents():
    body = b'\xef\xbb\xbf {"a": [1, -3e2, true, null, Infinity, "\\ud83d\\ude00"]} x'
    assert read_document(body) == {"a": [1, -300.0, True, None, math.inf, "\U0001f600"]}


@pytest.mark.parametrize(
    "body",
    [
        b"  ",
        b"\xff\xfe{\0}\0",
        b'{"a": 1, }',
        b'{"a": "\xff"}',
        b'{"a": [1, 1e600]}',
        b'{"a": ' + b"9" * 100_000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": [' + b"1," * 500_000 + b"1e999]}",
    ],
    ids=lambda body: repr(body[:16]),
)
def test_parse_errors_are_reported_fast(body):
    start = time.perf_counter()
    with pytest.raises(Refusal, match=r"^JSON Parse error: .") as refusal:
        read_document(body)
    assert refusal.value.status == 400
    assert time.perf_counter() - start < 3


def test_the_number_of_objects_is_limited():
    with pytest.raises(Refusal, match="lists and objects") as refusal:
        read_document(b'{"instances": [' + b"{}," * 300_000 + b"{}]}")
    assert refusal.value.status == 413


def test_calls():
    for line, call in {
        "GET /v1/models/m": Call("m", None, "status"),
        "GET /v1/models/a%0Ab/versions/07": Call("a\nb", 7, "status"),
        "GET /v1/models/m/labels/any": Call("m", None, "status"),
        "GET /v1/models/m/versions/3/metadata": Call("m", 3, "metadata"),
        "POST /v1/models/..%2fm:predict": Call("../m", None, "predict"),
        "POST /v1/embeddings?api-version=1": Call("", None, "embeddings"),
    }.items():
        assert read_call(*line.split()) == call
    for path in ("m:predict", "", "m/", "m/../m", f"m/versions/{2**63}", "m/versions/abc"):
        with pytest.raises(Refusal, match=r"^Malformed request: "):
            read_call("GET", f"/v1/models/{path}")


def test_numbers_and_strings_of_responses():
    numbers = np.float32([1 / 3, 7, np.nan, -np.inf])
    assert json_bytes(predictions({"y": numbers}, by_row=False)) == (
        b'{"outputs": [0.333333343, 7.0, NaN, -Infinity]}'
    )
    many = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    assert np.float32(predictions({"y": many}, by_row=True)["predictions"]).tolist() == list(many)
    label = np.array([b"no", b"\xff"], dtype=object)
    outputs = {"p": np.float64([0.1, 1]), "label": label, "label_bytes": label}
    assert predictions(outputs, by_row=True)["predictions"] == [
        {"p": 0.1, "label": "no", "label_bytes": {"b64": "bm8="}},
        {"p": 1.0, "label": "\ufffd", "label_bytes": {"b64": "/w=="}},
    ]
    empty = {"p": np.zeros([0, 2], np.float32), "q": np.zeros([0], np.int32)}
    assert predictions(empty, by_row=True) == {"predictions": []}
    assert predictions(empty, by_row=False) == {"outputs": {"p": [], "q": []}}
