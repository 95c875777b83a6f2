"""Output arrays become the JSON numbers and strings that TF Serving writes."""

import json

import numpy as np
import pytest

from bert_keras.serving.calls import Refusal
from bert_keras.serving.responses import columns_body, rows_body


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1 / 3), "0.333333343"),
        (np.float32(0.1), "0.1"),
        (np.float32(7), "7.0"),
        (np.float32(1e20), "1e+20"),
        (np.float32(16777217), "16777216.0"),
        (np.float64(1 / 3), "0.3333333333333333"),
        (np.float32(np.nan), "NaN"),
        (np.float64(-np.inf), "-Infinity"),
        (np.int64(-(2**63)), "-9223372036854775808"),
        (np.bool_(True), "true"),
    ],
)
def test_numbers(value, text):
    assert columns_body({"y": np.asarray(value)}) == f'{{\n    "outputs": {text}\n}}'.encode()


def test_rows_of_one_output_and_of_several_outputs():
    probabilities = np.float32([[0.25, 0.75], [1, 0]])
    label = np.array([b"no", b"\xff"], dtype=object)
    assert json.loads(rows_body({"p": probabilities})) == {"predictions": [[0.25, 0.75], [1, 0]]}
    body = rows_body({"p": probabilities, "label": label, "label_bytes": label})
    assert json.loads(body.decode(errors="replace"))["predictions"] == [
        {"p": [0.25, 0.75], "label": "no", "label_bytes": {"b64": "bm8="}},
        {"p": [1.0, 0.0], "label": "\ufffd", "label_bytes": {"b64": "/w=="}},
    ]
    assert b'"\xff"' in body


def test_empty_outputs():
    empty = {"p": np.zeros([0, 2], np.float32), "q": np.zeros([0], np.int32)}
    assert json.loads(rows_body(empty)) == {"predictions": []}
    assert json.loads(columns_body(empty)) == {"outputs": {"p": [], "q": []}}
    assert json.loads(columns_body({"p": np.zeros([2, 0], np.int32)})) == {"outputs": [[], []]}


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"mean": np.float32(1)}, "Tensor name: mean has no shape information "),
        (
            {"a": np.zeros(1), "b": np.zeros(2)},
            "Tensor name: b has inconsistent batch size: 2 expecting: 1",
        ),
        (
            {"z": np.zeros(1, np.complex64)},
            "Failed to write JSON value for tensor type: complex64",
        ),
    ],
)
def test_refusals(outputs, message):
    with pytest.raises(Refusal) as refusal:
        rows_body(outputs)
    assert str(refusal.value) == message
