"""Paths, methods and versions with the responses of TF Serving (tf_serving_rest.jsonl), metrics."""

import gzip

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bert_keras.serving.monitoring import METRICS_PATH
from bert_keras.serving.server import running_server

ONE = '{"instances": [1.0]}'
PREDICT = "/v1/models/half_plus_two:predict"


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        ("POST /v1/models/half_plus_two/versions/123:predict", 404, "Specific(half_plus_two, 123)"),
        ("POST /v1/models/m/labels/a%20b:predict", 400, "servable version label: a b"),
        ("GET /v1/models/..%2f..%2Fetc", 404, "Could not find any versions of model ../../etc"),
        (f"POST {PREDICT.replace('predict', 'classify')}", 400, "Malformed request: POST"),
    ],
)
def test_invalid_paths_are_refused(server_of, send, request_, status, message):
    method, path = request_.split(" ")
    response = send(server_of("half_plus_two"), method, path, ONE if method == "POST" else None)
    assert response.status == status
    assert message in response.json["error"]


def test_gzipped_bodies_are_decompressed(server_of, send):
    url, headers = server_of("half_plus_two"), {"Content-Encoding": "gzip"}
    zipped = gzip.compress(ONE.encode())
    assert send(url, "POST", PREDICT, zipped, headers).json == {"predictions": [2.5]}
    response = send(url, "POST", PREDICT, b"not gzip", headers)
    assert response.status == 400
    assert response.json["error"].startswith("JSON Parse error: ")


def test_prometheus_can_read_the_metrics(models, send):
    with running_server(models / "half_plus_two") as url:
        for body in (ONE, ONE, "{"):
            send(url, "POST", PREDICT, body)
        for number in range(5):
            send(url, "GET", f"/v1/models/invented{number}")
        page = send(url, "GET", METRICS_PATH).body.decode()
    values = {
        (sample.name.removeprefix(":tensorflow:serving:"), *sorted(sample.labels.values())): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert values["request_count", "OK", "half_plus_two"] == 2
    assert values["request_count", "INVALID_ARGUMENT", "half_plus_two"] == 1
    assert values["request_count", "", "NOT_FOUND"] == 5
    assert values["request_latency_count", "REST", "half_plus_two", "predict"] == 2
    assert values["runtime_latency_count", "Predict", "TF1", "half_plus_two"] == 2
    assert values["batching_session:processed_batch_size_sum", "half_plus_two"] == 2
    assert "invented" not in page
