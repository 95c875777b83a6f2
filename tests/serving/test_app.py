"""Paths, methods, versions and APIs with the statuses and bodies of TF Serving's responses
(tf_serving_rest.jsonl and http_rest_api_util.cc)."""

import gzip
import json

import pytest

MALFORMED = "Malformed request: "
ONE = '{"instances": [1.0]}'


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
    response = send(url, "POST", f"{path}/versions/123:predict", ONE)
    message = "Servable not found for request: Specific(half_plus_two, 123)"
    assert (response.status, response.json) == (404, {"error": message})


def test_chosen_versions_and_labels(both_versions, send):
    path = "/v1/models/half_plus_two"
    assert send(both_versions, "GET", path).json == status(124, 123)
    assert send(both_versions, "GET", f"{path}/versions/123").json == status(123)
    for suffix, version in (("", "124"), ("/versions/123", "123"), ("/labels/old", "123")):
        response = send(both_versions, "GET", f"{path}{suffix}/metadata")
        assert response.json["model_spec"]["version"] == version
        response = send(both_versions, "POST", f"{path}{suffix}:predict", ONE)
        assert response.json == {"predictions": [2.5]}
    response = send(both_versions, "POST", f"{path}/labels/none:predict", ONE)
    message = "Unrecognized servable version label: none"
    assert (response.status, response.json) == (400, {"error": message})


def test_metadata(any_server_of, send):
    response = send(any_server_of("texty"), "GET", "/v1/models/texty/versions/1/metadata")
    assert response.status == 200
    assert response.json["model_spec"] == {"name": "texty", "version": "1", "signature_name": ""}
    signature = response.json["metadata"]["signature_def"]["signature_def"]["serving_default"]
    ids = signature["outputs"]["input_ids"]
    assert (signature["method_name"], ids["dtype"]) == ("tensorflow/serving/predict", "DT_INT32")
    assert ids["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}, {"size": "8", "name": ""}],
        "unknown_rank": False,
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/v1/models/nope", 404, "Could not find any versions of model nope"),
        ("GET", "/v1/models/nope/metadata", 404, "Servable not found for request: Latest(nope)"),
        ("POST", "/v1/models/nope:predict", 404, "Servable not found for request: Latest(nope)"),
        ("GET", "/v1/models/m/versions/7", 404, "Could not find version 7 of model m"),
        (
            "GET",
            "/v1/models/m/versions/7/metadata",
            404,
            "Servable not found for request: Specific(m, 7)",
        ),
        (
            "POST",
            "/v1/models/m/labels/stable:predict",
            400,
            "Unrecognized servable version label: stable",
        ),
        ("GET", "/v1/models", 400, "Missing model name in request."),
        ("GET", "/v1/models/", 400, MALFORMED + "GET /v1/models/"),
        ("GET", "/v1/models/m/", 400, MALFORMED + "GET /v1/models/m/"),
        ("POST", "/v1/models/m", 400, MALFORMED + "POST /v1/models/m"),
        ("POST", "/v1/models/m:foo", 400, MALFORMED + "POST /v1/models/m:foo"),
        ("POST", "/v1/models/m:Predict", 400, MALFORMED + "POST /v1/models/m:Predict"),
        ("POST", "/v1/models/m:predict?x=1", 400, MALFORMED + "POST /v1/models/m:predict?x=1"),
        ("PUT", "/v1/models/m:predict", 400, MALFORMED + "PUT /v1/models/m:predict"),
        ("DELETE", "/v1/x", 400, MALFORMED + "DELETE /v1/x"),
        ("GET", "/v1/models/a%0Ab", 404, "Could not find any versions of model a\nb"),
        ("GET", "/v1/models/..%2f..%2Fetc", 404, "Could not find any versions of model ../../etc"),
        ("GET", "/v1/models/m/../m", 400, MALFORMED + "GET /v1/models/m/../m"),
        (
            "POST",
            "/v1/models/m/versions/abc:predict",
            400,
            MALFORMED + "POST /v1/models/m/versions/abc:predict",
        ),
        ("POST", "/V1/Models/nope:predict", 404, "Servable not found for request: Latest(nope)"),
    ],
)
def test_invalid_paths_are_refused(any_server_of, send, method, path, status, message):
    body = ONE if method == "POST" else None
    response = send(any_server_of("half_plus_two"), method, path, body)
    assert (response.status, response.json) == (status, {"error": message})


def test_paths_of_other_apis_are_not_found(server_of, send):
    for method, path in (("GET", "/"), ("POST", "/v2/models/m:predict"), ("GET", "/favicon.ico")):
        response = send(server_of("half_plus_two"), method, path)
        assert (response.status, response.headers["Content-Type"].partition(";")[0]) == (
            404,
            "text/html",
        )
        assert b"<TITLE>404 Not Found</TITLE>" in response.body


def test_options_and_a_version_beyond_64_bits_have_empty_bodies(any_server_of, send):
    url = any_server_of("half_plus_two")
    assert send(url, "OPTIONS", "/v1/models/m:predict").status == 400
    preflight = send(url, "OPTIONS", "/v1/models/m:predict", headers={"Origin": "http://a"})
    assert (preflight.status, preflight.body) == (200, b"")
    for number in ("9223372036854775808", "9" * 5000):
        response = send(url, "GET", f"/v1/models/half_plus_two/versions/{number}")
        assert (response.status, response.body) == (400, b"")


def test_gzipped_bodies_are_decompressed(any_server_of, send):
    url, path = any_server_of("half_plus_two"), "/v1/models/half_plus_two:predict"
    headers = {"Content-Encoding": "gzip"}
    zipped = gzip.compress(ONE.encode())
    assert send(url, "POST", path, zipped, headers).json == {"predictions": [2.5]}
    response = send(url, "POST", path, b"not gzip", headers)
    assert (response.status, response.json) == (
        400,
        {"error": "JSON Parse error: The document is empty"},
    )


CLASSIFY_WAS = (
    "Expected classification signature method_name to be tensorflow/serving/classify. Was: "
)


@pytest.mark.parametrize(
    ("verb", "body", "status", "expected"),
    [
        (
            "classify",
            {"examples": [{"x": 1.0}, {"x": [2.0]}], "signature_name": "classify_x_to_y"},
            200,
            {"results": [[["", 2.5]], [["", 3.0]]]},
        ),
        (
            "regress",
            {
                "examples": [{}, {"x": 2.0}],
                "context": {"x": 4.0},
                "signature_name": "regress_x_to_y2",
            },
            200,
            {"results": [5.0, 4.0]},
        ),
        (
            "classify",
            {"examples": [{"x": 1.0}]},
            400,
            {"error": CLASSIFY_WAS + "tensorflow/serving/predict"},
        ),
        (
            "regress",
            {"examples": [{"x": 1.0}], "signature_name": "classify_x_to_y"},
            400,
            {
                "error": "Expected regression signature method_name to be tensorflow/serving/"
                "regress. Was: tensorflow/serving/classify"
            },
        ),
        (
            "classify",
            {"examples": [{}], "signature_name": "nope"},
            400,
            {"error": "No signature was found with the name: nope"},
        ),
    ],
)
def test_classify_and_regress(any_server_of, send, verb, body, status, expected):
    path = f"/v1/models/half_plus_two:{verb}"
    response = send(any_server_of("half_plus_two"), "POST", path, json.dumps(body))
    assert (response.status, response.json) == (status, expected)


def test_features_that_the_signature_cannot_parse_are_refused(any_server_of, send):
    body = {"examples": [{"x": 1}], "signature_name": "regress_x_to_y"}
    path = "/v1/models/half_plus_two:regress"
    response = send(any_server_of("half_plus_two"), "POST", path, json.dumps(body))
    assert response.status == 400
    assert (
        "Data types don't match. Data type: int64 but expected type: float"
        in (response.json["error"])
    )
