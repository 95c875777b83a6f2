"""The local server responds to requests as TF Serving did (recorded_responses.jsonl).

White space, and numbers beyond the precision of float32, may differ.
"""

import gzip
import json
import math
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from bert_keras.serving import rest_api
from bert_keras.serving.app import METRICS_PATH
from bert_keras.serving.rest_api import Call, Refusal, read_call, read_document
from bert_keras.serving.server import running_server
from tests.factories import wait_for

# (case, request, status, content_type, body) of TensorFlow Serving's REST code of 2025-12-17
RECORDED = Path(__file__).with_name("recorded_responses.jsonl").read_text("utf-8").splitlines()
PAIRS = {pair["case"]: pair for pair in map(json.loads, RECORDED)}
MODELS = ("half_plus_three", "keras_tiny", "texty")  # requests without one are for half_plus_two
# Sentences from inside an op of another graph, or that name an output of two by chance.
ONLY_STATUS = {"shape_texty_2d", "shape_rank_keras_row", "shape_dim_keras_row"}
ONLY_STATUS |= {"shape_dim_keras_col", "shape_extra_rank_keras"}
PARSE_ERROR = "JSON Parse error: "
# Pairs of a folder that changes, and what was done to it before them.
AFTER_V2 = ("hot_after_v2", "hot_old_version_predict")
AFTER_CORRUPT_V3 = ("hot_corrupt_v3", "hot_predict_after_corrupt", "hot_metadata_corrupt_version")
AFTER_V3_REMOVED = ("hot_after_v3_removed",)


def test_responses_equal_the_recorded_ones(server_of, both_versions, send):
    for case in PAIRS.keys() - {*AFTER_V2, *AFTER_CORRUPT_V3, *AFTER_V3_REMOVED}:
        path = PAIRS[case]["request"]["path"]
        model = next((each for each in MODELS if f"/{each}" in path), None)
        check([case], server_of(model) if model else both_versions, send)


@pytest.mark.slow
def test_versions_are_loaded_and_unloaded_as_recorded(models, tmp_path, send):
    def states():
        versions = send(url, "GET", "/v1/models/hot").json()["model_version_status"]
        return [version["state"] for version in versions]

    folder = tmp_path / "hot"
    shutil.copytree(models / "keras_tiny" / "1", folder / "1")
    with running_server(folder) as url:
        shutil.copytree(folder / "1", folder / "2")
        wait_for(lambda: states() == ["AVAILABLE", "END"])
        check(AFTER_V2, url, send)
        shutil.copytree(folder / "2", folder / "3")
        data = folder / "3" / "variables" / "variables.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[:-1])
        wait_for(lambda: states() == ["END", "AVAILABLE", "END"])
        check(AFTER_CORRUPT_V3, url, send)
        shutil.rmtree(folder / "3")
        time.sleep(2)  # two checks of the folder
        check(AFTER_V3_REMOVED, url, send)


def check(cases, url, send):
    for case in cases:
        pair = PAIRS[case]
        answer = send(url, **pair["request"])
        assert answer.status_code == pair["status"], (case, answer)
        if case not in ONLY_STATUS:
            body = answer.content.decode(errors="replace")
            assert meaning(body) == meaning(pair["body"]), (case, answer, pair)
            assert answer.headers["Content-Type"].partition(";")[0] == pair["content_type"]


def meaning(body):
    """The parsed body without white space, names of graph nodes, and digits beyond float32."""
    try:
        parsed = json.loads(body, parse_float=float32)
    except ValueError:
        return body
    if "error" in parsed:
        message = parsed["error"].partition("\n\t [[")[0]  # a node name follows
        if message.startswith(PARSE_ERROR):  # then come the words of another JSON parser
            message = PARSE_ERROR
        numbers = re.sub(r"\d+(\.\d+)?", lambda number: f"{float(number[0]):g}", message)
        parsed["error"] = "".join(numbers.split())
    if "metadata" in parsed:
        for signature in parsed["metadata"]["signature_def"]["signature_def"].values():
            for tensor in (*signature["inputs"].values(), *signature["outputs"].values()):
                tensor["name"] = tensor["name"].rpartition(":")[1]
    return json.dumps(parsed, sort_keys=True)  # in which NaN equals NaN


def float32(text):
    with np.errstate(over="ignore"):
        return float(np.float32(float(text)))


def test_calls():
    for line, *call in (
        ("GET /v1/models/a%0Ab/versions/07", "a\nb", 7, "status"),
        ("GET /v1/models/m/versions/3/metadata", "m", 3, "metadata"),
        ("POST /v1/models/..%2fm:predict", "../m", None, "predict"),
        ("POST /v1/embeddings?api-version=1", "", None, "embeddings"),
    ):
        assert read_call(*line.split()) == Call(*call)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "words"),
    [
        ("GET", "", {}, 400, "Missing model name in request."),
        ("POST", ":predict", {}, 400, "Malformed request"),
        *(("GET", f"/a/versions/{number}", {}, 400, "") for number in (2**63, "9" * 5000)),
        *(("OPTIONS", "/a", {"Origin": f"{name}://a"}, 200, "") for name in ("http", "https")),
        ("OPTIONS", "/a", {"Origin": "null"}, 400, ""),
    ],
)
def test_other_requests(server_of, send, method, path, headers, status, words):
    response = send(server_of("texty"), method, f"/v1/models{path}", headers=headers)
    assert response.status_code == status and words in response.text
    assert bool(words) == bool(response.content)


ONE = b'{"instances": [1.0]}'
PREDICT = "/v1/models/half_plus_two:predict"


def test_gzipped_bodies_are_decompressed(server_of, send):
    url, headers = server_of("half_plus_two"), {"Content-Encoding": "gzip"}
    assert send(url, "POST", PREDICT, gzip.compress(ONE), headers).json() == {"predictions": [2.5]}
    response = send(url, "POST", PREDICT, b"not gzip", headers)
    assert response.status_code == 400 and response.json()["error"].startswith(PARSE_ERROR)


def test_the_metrics_of_prometheus(models, send):
    with running_server(models / "half_plus_two") as url:
        for body in (ONE, ONE, "{"):
            send(url, "POST", PREDICT, body)
        for number in range(5):
            send(url, "GET", f"/v1/models/invented{number}")
        page = send(url, "GET", METRICS_PATH).content.decode()
    for name, labels, value in (
        ("request_count", 'model_name="half_plus_two",status="OK"', 2),
        ("request_count", 'model_name="half_plus_two",status="INVALID_ARGUMENT"', 1),
        ("request_count", 'model_name="",status="NOT_FOUND"', 5),
        ("request_latency_count", 'API="predict",entrypoint="REST",model_name="half_plus_two"', 2),
        ("runtime_latency_count", 'API="Predict",model_name="half_plus_two",runtime="TF1"', 2),
        ("batching_session:processed_batch_size_sum", 'model_name="half_plus_two"', 2),
    ):
        assert f":tensorflow:serving:{name}{{{labels}}} {value}.0\n" in page
    assert "invented" not in page


def tensors(signature_name="", **document):
    signatures = {"serving_default": {"x": "float"}, "two": {"ids": "int32", "text": "string"}}
    signatures |= {"flag": {"b": "bool"}, "half": {"h": "half"}}
    _, arrays = rest_api.read_predict({"signature_name": signature_name, **document}, signatures)
    return {name: (array.dtype.name, array.tolist()) for name, array in arrays.items()}


def test_arrays_of_each_dtype():
    assert tensors(instances=[[[1]], [[2.5]]]) == {"x": ("float32", [[[1.0]], [[2.5]]])}
    assert tensors(inputs={"x": [[1.0]], "z": 1}) == {"x": ("float32", [[1.0]])}
    assert tensors("flag", inputs=[True]) == {"b": ("bool", [True])}
    expected = {"ids": ("int32", [[-7]]), "text": ("object", ["é".encode(), b"Hi"])}
    assert tensors("two", inputs={"ids": [[-7]], "text": ["é", {"b64": "SGk"}]}) == expected


NO_TEXTS = {"b64": "a"}, {"b64": 1}, {"b": 1}, "\ud800"
DEEP = json.loads("[" * 900 + "1" + "]" * 900)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"signature_name": 3}, "not formatted correctly. 'signature_name' key must be a string"),
        ({"instances": [1.0], "inputs": 1}, "Not formatted correctly expecting only one of"),
        ({"inputs": [1], "signature_name": "two"}, "inputs is a plain value/list, but"),
        ({"inputs": [[1], [1, 2]]}, "list at unexpected size: 2 at level: 1 expected size: 1"),
        ({"inputs": [[1], 2]}, "2 found at incorrect level: 2 in the JSON DOM. Expected"),
        ({"inputs": [1, [2]]}, "Encountered list at unexpected level: 1 expected < 1"),
        ({"instances": [{"x": 1}, 2]}, "Expecting object but got list at item 1"),
        ({"instances": [2, {"x": 1}]}, "Expecting value/list but got object at item 1"),
        ({"instances": [[1, 2], [[1, 2]]]}, "Expecting shape [2] but got: [1,2]"),
        *(({"inputs": [None]}, "Type: Null"), ({"inputs": [10**400]}, "Type: Number")),
        # NumPy's iterator has 32 dimensions, and Python's parser reads more.
        *(({"inputs": DEEP}, "32 dimensions"), ({"instances": DEEP}, "32 dimensions")),
        *(({"inputs": [1, DEEP]}, ""), ({"signature_name": DEEP}, "")),
        ({"signature_name": "half", "inputs": 1}, ""),
        ({"signature_name": "two", "inputs": {"ids": 2**31, "text": "a"}}, ""),
        ({"signature_name": "two", "inputs": {"ids": [1, True], "text": "a"}}, ""),
        *(({"signature_name": "two", "inputs": {"ids": 1, "text": x}}, "") for x in NO_TEXTS),
    ],
)
def test_values_of_a_wrong_type_or_shape_are_refused(document, message):
    with pytest.raises(Refusal) as refusal:
        tensors(**document)
    assert message in str(refusal.value)


def test_documents():
    body = b'\xef\xbb\xbf {"a": [1, -3e2, true, null, Infinity, "\\ud83d\\ude00"]} x'
    assert read_document(body) == {"a": [1, -300.0, True, None, math.inf, "\U0001f600"]}
    for value, number in (b"{}", 210_000), (b"0", 1_050_000):
        with pytest.raises(Refusal) as refusal:
            read_document(b'{"instances": [' + number * (value + b",") + value + b"]}")
        assert refusal.value.status == 413


@pytest.mark.parametrize(
    "body",
    [
        *(b"  ", b"\xff\xfe{\0}\0", b'{"a": 1, }', b'{"a": "\xff"}', b'{"a": [1, 1e600]}'),
        *(b'{"a": ' + b"9" * 100_000 + b"}", b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        b'{"a": [' + b"1," * 500_000 + b"1e999]}",
    ],
    ids=lambda body: repr(body[:16]),
)
def test_parse_errors_are_reported_fast(body):
    start = time.perf_counter()
    with pytest.raises(Refusal) as refusal:
        read_document(body)
    assert refusal.value.status == 400
    assert time.perf_counter() - start < 3


def test_numbers_and_strings_of_responses():
    def predictions(**outputs):
        return rest_api.predict_response(outputs, by_row=True)["predictions"]

    many = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    assert np.float32(predictions(y=many)).tolist() == list(many)
    numbers, label = np.float32([1 / 3, np.nan]), np.array([b"no", b"\xff"], object)
    rows = predictions(p=numbers, label=label, label_bytes=label)
    assert rest_api.json_bytes(rows).decode() == (
        '[{"p": 0.333333343, "label": "no", "label_bytes": {"b64": "bm8="}}, '
        '{"p": NaN, "label": "\ufffd", "label_bytes": {"b64": "/w=="}}]'
    )
    assert predictions(p=np.zeros([0, 2]), q=np.zeros([0])) == []
