"""Bodies of predict requests with the statuses and bodies of TF Serving's responses
(tf_serving_rest.jsonl; cases marked "source" follow tensorflow_serving/util/json_tensor.cc)."""

import pytest

ROW_0 = "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: "

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
