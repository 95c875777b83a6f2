"""Paths, methods and versions with the responses of TF Serving (tf_serving_rest.jsonl), metrics."""

import gzip
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bert_keras.serving.monitoring import METRICS_PATH
from bert_keras.serving.server import running_server

MALFORMED = "Malformed request: "
ONE = '{"instances": [1.0]}'
PREDICT = "/v1/models/half_plus_two:predict"


def status(*numbers):
    health = {"error_code": "OK", "error_message": ""}
    versions = [{"version": str(n), "state": "AVAILABLE", "status": health} for n in numbers]
    return {"model_version_status": versions}


def test_the_latest_version_is_served(server_of, send):
    url, path = server_of("half_plus_two"), "/v1/models/half_plus_two"
    for same in (path, f"{path}/versions/124", f"{path}/labels/canary", path.replace("_", "%5F")):
        response = send(url, "GET", same)
        assert (response.status, response.json) == (200, status(124))
    assert send(url, "POST", f"{path}/versions/124:predict", ONE).json == {"predictions": [2.5]}
    assert send(url, "POST", f"{path}/versions/123:predict", ONE).status == 404


def test_chosen_versions(both_versions, send):
    path = "/v1/models/half_plus_two"
    assert send(both_versions, "GET", path).json == status(124, 123)
    for suffix, version in (("", "124"), ("/versions/123", "123")):
        metadata = send(both_versions, "GET", f"{path}{suffix}/metadata").json
        assert metadata["model_spec"]["version"] == version
        response = send(both_versions, "POST", f"{path}{suffix}:predict", ONE)
        assert response.json == {"predictions": [2.5]}


def test_metadata(any_server_of, send):
    document = send(any_server_of("texty"), "GET", "/v1/models/texty/versions/1/metadata").json
    assert document["model_spec"] == {"name": "texty", "version": "1", "signature_name": ""}
    signature = document["metadata"]["signature_def"]["signature_def"]["serving_default"]
    ids = signature["outputs"]["input_ids"]
    assert (signature["method_name"], ids["dtype"]) == ("tensorflow/serving/predict", "DT_INT32")
    assert ids["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}, {"size": "8", "name": ""}],
        "unknown_rank": False,
    }


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        ("GET /v1/models/nope", 404, "Could not find any versions of model nope"),
        ("GET /v1/models/half_plus_two/versions/7", 404, "Could not find version 7 of"),
        ("GET /v1/models/nope/metadata", 404, "Servable not found for request: Latest(nope)"),
        ("POST /v1/models/half_plus_two/versions/7:predict", 404, "Specific(half_plus_two, 7)"),
        ("POST /v1/models/m/labels/a%20b:predict", 400, "servable version label: a b"),
        ("GET /v1/models/a%0Ab", 404, "Could not find any versions of model a\nb"),
        ("GET /v1/models/..%2f..%2Fetc", 404, "Could not find any versions of model ../../etc"),
        ("GET /v1/models/m/", 400, "Malformed request: GET /v1/models/m/"),
        ("POST /v1/models/m:predict?x=1", 400, "Malformed request: POST /v1/models/m:predict?x=1"),
        (f"POST {PREDICT.replace('predict', 'classify')}", 400, "Malformed request: POST"),
    ],
)
def test_invalid_paths_are_refused(server_of, send, request_, status, message):
    method, path = request_.split(" ")
    response = send(server_of("half_plus_two"), method, path, ONE if method == "POST" else None)
    assert response.status == status
    assert message in response.json["error"]


def test_paths_of_other_apis_are_not_found(server_of, send):
    for method, path in (("GET", "/"), ("POST", "/v2/models/m:predict"), ("GET", "/favicon.ico")):
        response = send(server_of("half_plus_two"), method, path)
        assert (response.status, response.headers["Content-Type"].partition(";")[0]) == (
            404,
            "text/html",
        )


def test_gzipped_bodies_are_decompressed(any_server_of, send):
    url, headers = any_server_of("half_plus_two"), {"Content-Encoding": "gzip"}
    zipped = gzip.compress(ONE.encode())
    assert send(url, "POST", PREDICT, zipped, headers).json == {"predictions": [2.5]}
    response = send(url, "POST", PREDICT, b"not gzip", headers)
    assert response.status == 400
    assert response.json["error"].startswith("JSON Parse error: ")


def test_the_response_has_the_message_of_a_failing_op(any_server_of, send):
    path = "/v1/models/keras_tiny:predict"
    response = send(any_server_of("keras_tiny"), "POST", path, '{"inputs": [[1.0, 2.0]]}')
    assert response.status == 400
    assert "Matrix size-incompatible: In[0]: [1,2], In[1]: [3,2]" in response.json["error"]


def test_prometheus_can_read_the_metrics(models, send):
    with running_server(models / "half_plus_two") as url:
        for body in (ONE, ONE, "{"):
            send(url, "POST", PREDICT, body)
        for number in range(5):
            send(url, "GET", f"/v1/models/invented{number}")
        response = send(url, "GET", METRICS_PATH)
    assert (response.status, response.headers["Content-Type"].partition(";")[0]) == (
        200,
        "text/plain",
    )
    page = response.body.decode()
    values = {
        sample.name.removeprefix(":tensorflow:serving:") + str(sorted(sample.labels.values())): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert values["request_count['OK', 'half_plus_two']"] == 2
    assert values["request_count['INVALID_ARGUMENT', 'half_plus_two']"] == 1
    assert values["request_count['', 'NOT_FOUND']"] == 5
    assert values["request_latency_count['REST', 'half_plus_two', 'predict']"] == 2
    assert values["runtime_latency_count['Predict', 'TF1', 'half_plus_two']"] == 2
    assert values["batching_session:processed_batch_size_sum['half_plus_two']"] == 2
    assert not re.search("invented", page)
