"""Requests with the statuses and bodies of TF Serving's responses (tf_serving_rest.jsonl;
cases marked "source" follow tensorflow_serving/util/json_tensor.cc and http_rest_api_util.cc)."""

import gzip
import json

import pytest

MALFORMED = "Malformed request: "
ROW_0 = "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: "
ONE = '{"instances": [1.0]}'

PREDICTIONS = [
    # model, body, response
    ("half_plus_two", '{"instances": [1.0, 2.0, 5.0]}', {"predictions": [2.5, 3.0, 4.5]}),
    ("half_plus_two", '{"instances": [{"x": 1.0}, {"x": 2}]}', {"predictions": [2.5, 3.0]}),
    ("half_plus_two", '{"instances": [[[1]]], "other": {}} x', {"predictions": [[[2.5]]]}),
    ("half_plus_two", '{"inputs": {"x": [[1.0]], "z": 1}}', {"outputs": [[2.5]]}),
    ("half_plus_two", '{"inputs": []}', {"outputs": []}),
    ("half_plus_two", '{"inputs": 3}', {"outputs": 3.5}),
    ("half_plus_two", '{"instances":[1e60]}', {"predictions": [float("inf")]}),
    ("half_plus_three", '{"signature_name": "", "instances": [1.0]}', {"predictions": [3.5]}),
    ("keras_tiny", '{"inputs": [[1.5, 2, 3]]}', {"outputs": [[7.5, 7.5]]}),
    (
        "texty",
        '{"instances": ["Hello worlds!", {"b64": "SGVsbG8"}, ""]}',
        {
            "predictions": [
                {"input_ids": [4, 5, 6, 7, 0, 0, 0, 0], "len": 13},
                {"input_ids": [4, 0, 0, 0, 0, 0, 0, 0], "len": 5},
                {"input_ids": [0] * 8, "len": 0},
            ]
        },
    ),
    (
        "texty",
        '{"signature_name": "multi", "instances": [{"a": [1, 2], "b": 7}, {"b": -1, "a": [0, 0]}]}',
        {
            "predictions": [
                {"sum": [8.0, 11.0], "b2": 14, "flag": True},
                {"sum": [-1.0, -1.0], "b2": -2, "flag": False},
            ]
        },
    ),
    (
        "texty",
        '{"signature_name": "agg", "inputs": [[1, 2], [3, 4]]}',
        {"outputs": {"mean": 2.5, "row": [3.0, 7.0]}},
    ),
    ("texty", '{"signature_name": "scalar", "instances": [3.5]}', {"predictions": [7.0]}),
    (
        "texty",
        '{"signature_name": "bytes", "inputs": ["abcdef", {"b64": "/+7dzA=="}]}',
        {
            "outputs": {
                "out_bytes": [{"b64": "YWJjZA=="}, {"b64": "/+7dzA=="}],
                "out": ["ABCDEF", "\ufffd\ufffd\ufffd\ufffd"],
            }
        },
    ),
]


@pytest.mark.parametrize(("model", "body", "expected"), PREDICTIONS)
def test_predictions(any_server_of, send, model, body, expected):
    response = send(any_server_of(model), "POST", f"/v1/models/{model}:predict", body)
    assert (response.status, response.json) == (200, expected)
    assert response.headers["Content-Type"] == "application/json"


def test_nan_and_infinity_are_read_and_written_unquoted(any_server_of, send):
    body = '{"signature_name":"special","inputs":[NaN,Infinity,-Infinity, 0]}'
    response = send(any_server_of("texty"), "POST", "/v1/models/texty:predict", body)
    outputs = response.json["outputs"]
    assert repr(outputs["third"]) == "[nan, inf, -inf, 0.0]"
    assert repr(outputs["log"]) == "[nan, inf, nan, -inf]"
    assert b"-Infinity" in response.body


REFUSED = [
    # model, body, status, sentence
    ("half_plus_two", "", 400, "JSON Parse error: The document is empty"),
    ("half_plus_two", "[1.0]", 400, "JSON Value: [1.0] Is not object"),
    ("half_plus_two", "{}", 400, "Missing 'inputs' or 'instances' key"),
    (
        "half_plus_two",
        '{"instances": [1.0], "inputs": 1}',  # source
        400,
        'JSON Value: {\n    "instances": [1.0],\n    "inputs": 1\n} Not formatted correctly '
        "expecting only one of 'inputs' or 'instances' keys to exist ",
    ),
    (
        "half_plus_two",
        '{"instances": []}',
        400,
        "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array",
    ),
    (
        "half_plus_two",
        '{"instances": null}',
        400,
        "JSON Value: {\n    \"instances\": null\n} Expecting 'instances' to be an list/array",
    ),
    (
        "half_plus_two",
        '{"signature_name": 3, "inputs": 1}',  # source
        400,
        'JSON Value: {\n    "signature_name": 3,\n    "inputs": 1\n} not formatted correctly. '
        "'signature_name' key must be a string value.",
    ),
    (
        "half_plus_two",
        '{"signature_name": "nope", "instances": [1.0]}',
        400,
        'Serving signature name: "nope" not found in signature def',
    ),
    (
        "texty",
        '{"signature_name": "__saved_model_init_op", "inputs": 1}',  # source
        400,
        "Failed to get input map for signature: __saved_model_init_op",
    ),
    (
        "half_plus_two",
        '{"instances": ["abc"]}',
        400,
        ROW_0 + 'JSON Value: "abc" Type: String is not of expected type: float',
    ),
    (
        "half_plus_two",
        '{"instances": [true]}',
        400,
        ROW_0 + "JSON Value: true Type: True is not of expected type: float",
    ),
    (
        "half_plus_two",
        '{"inputs": [null]}',  # source
        400,
        "JSON Value: null Type: Null is not of expected type: float",
    ),
    (
        "half_plus_two",
        '{"instances": [{"x": 1.0, "z": 2.0}]}',
        400,
        "Failed to process element: 0 key: z of 'instances' list. Error: INVALID_ARGUMENT: JSON "
        "object: does not have named input: z",
    ),
    (
        "half_plus_two",
        '{"instances": [{"x": 1}, 2]}',  # source
        400,
        "Expecting object but got list at item 1 of input list",
    ),
    (
        "half_plus_two",
        '{"instances": [2, {"x": 1}]}',  # source
        400,
        "Expecting value/list but got object at item 1 of input list",
    ),
    (
        "half_plus_two",
        '{"inputs": {"y": [1.0]}}',
        400,
        "Missing named input: x in 'inputs' object.",
    ),
    (
        "keras_tiny",
        '{"instances": [[1.0, 2.0, 3.0], [1.0]]}',
        400,
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting "
        "tensor size: 3 but got: 1",
    ),
    (
        "keras_tiny",
        '{"instances": [[1, 2], [[1, 2]]]}',  # source
        400,
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting "
        "shape [2] but got: [1,2]",
    ),
    (
        "texty",
        '{"signature_name": "multi", "instances": [{"a": [1, 2], "b": 1}, {"a": [1, 2]}]}',
        400,
        "Failed to process element: 1 of 'instances' list. JSON object: {\n    \"a\": [1, 2]\n} "
        "keys must be equal to: a,b",
    ),
    (
        "texty",
        '{"signature_name": "multi", "instances": [[1, 2]]}',
        400,
        "instances is a plain list, but expecting list of objects as multiple input tensors "
        "required as per tensorinfo_map",
    ),
    (
        "texty",
        '{"signature_name": "multi", "inputs": [[1, 2]]}',  # source
        400,
        "inputs is a plain value/list, but expecting an object as multiple input tensors required "
        "as per tensorinfo_map",
    ),
    (
        "texty",
        '{"signature_name": "multi", "inputs": {"a": [[1, 2]], "b": [1.5]}}',
        400,
        "JSON Value: 1.5 Type: Number is not of expected type: int64",
    ),
    (
        "texty",
        '{"signature_name":"multi","inputs":{"a":[[1,2]],"b":[99999999999999999999]}}',
        400,
        "JSON Value: 100000000000000000000.0 Type: Number is not of expected type: int64",
    ),
    (
        "texty",
        '{"inputs": [{"b64": "a"}]}',  # source
        400,
        "Unable to base64 decode",
    ),
    (
        "texty",
        '{"inputs": [{"b64": 1}]}',  # source
        400,
        'JSON Value: {\n    "b64": 1\n} not formatted correctly for base64 data',
    ),
    (
        "texty",
        '{"signature_name": "agg", "instances": [[1, 2], [3, 4]]}',
        400,
        "Tensor name: mean has no shape information ",
    ),
]


@pytest.mark.parametrize(("model", "body", "status", "message"), REFUSED)
def test_invalid_bodies_are_refused(any_server_of, send, model, body, status, message):
    response = send(any_server_of(model), "POST", f"/v1/models/{model}:predict", body)
    assert (response.status, response.json) == (status, {"error": message})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("[[1], [1, 2]]", "Expecting tensor size: 1 but got: 2"),
        ("[1, [2]]", "Expecting shape [] but got: [1]"),
        ("[[1], 2]", "Expecting shape [1] but got: []"),
    ],
)
def test_ragged_inputs_are_refused(server_of, send, inputs, message):
    """The messages differ from TF Serving's, which name the level in the JSON document."""
    path, body = "/v1/models/half_plus_two:predict", f'{{"inputs": {inputs}}}'
    response = send(server_of("half_plus_two"), "POST", path, body)
    assert (response.status, response.json) == (400, {"error": message})


def test_outputs_with_different_batch_sizes_are_refused(server_of, send):
    """TF Serving names one of the two outputs by chance."""
    path, body = "/v1/models/texty:predict", '{"instances": [["a", "b"]]}'
    response = send(server_of("texty"), "POST", path, body)
    message = "Tensor name: len has inconsistent batch size: 1 expecting: 2"
    assert (response.status, response.json) == (400, {"error": message})


def test_the_response_has_the_message_of_a_failing_op(any_server_of, send):
    path = "/v1/models/keras_tiny:predict"
    response = send(any_server_of("keras_tiny"), "POST", path, '{"inputs": [[1.0, 2.0]]}')
    assert response.status == 400
    assert "Matrix size-incompatible: In[0]: [1,2], In[1]: [3,2]" in response.json["error"]


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
