"""OpenAI's embeddings API: requests, responses and errors; the official client gets vectors."""

import base64
import json

import numpy as np
import pytest

PATH = "/v1/embeddings"


@pytest.fixture
def url(server_of):
    return server_of("letters")


def vector(text, dimensions=4):
    counts = np.array([1 + text.count(letter) for letter in "abcd"[:dimensions]], np.float32)
    return counts / np.linalg.norm(counts)


def post(send, url, **fields):
    return send(url, "POST", PATH, json.dumps({"model": "letters", **fields}))


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
@pytest.mark.parametrize("dimensions", [None, 1, 4])
def test_texts_keep_their_order_in_each_format(url, send, encoding_format, dimensions):
    texts = [f"{'a' * n} d" for n in range(70)]  # more than one run takes
    fields = {"encoding_format": encoding_format, "dimensions": dimensions}
    response = post(send, url, input=texts, user="me", **fields)
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    document = response.json()
    vectors = [each.pop("embedding") for each in document["data"]]
    data = [{"object": "embedding", "index": index} for index in range(70)]
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), 70 * 4 - 1)
    assert document == {"object": "list", "data": data, "model": "letters", "usage": usage}
    if encoding_format == "base64":
        vectors = [np.frombuffer(base64.b64decode(each), "<f4") for each in vectors]
    expected = [vector(text, dimensions or 4) for text in texts]
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("param", "values"),
    [
        ("input", [None, [], 3, "", ["a", None], [101], [[101]], [{"b64": "YQ=="}], ["a"] * 2049]),
        ("dimensions", [0, True, "3", 5]),
        ("encoding_format", ["int8", []]),
        ("prompt_name", ["x"]),
    ],
)
def test_refused_parameters(url, send, param, values):
    for value in values:
        response = post(send, url, **{"input": "a", param: value})
        assert response.status_code == 400, value
        error = response.json()["error"]
        assert param in error.pop("message")
        assert error == {"type": "invalid_request_error", "param": param, "code": None}


def test_other_errors(url, server_of, send):
    def check(response, status, **fields):
        assert response.status_code == status and response.json()["error"].items() >= fields.items()

    for body in ("", "{", "[1]", '{"model": "letters", "input": "\\ud800"}'):
        check(send(url, "POST", PATH, body), 400, type="invalid_request_error")
    for name in "gpt", json.loads("[" * 500 + "]" * 500):
        check(post(send, url, input="a", model=name), 404, code="model_not_found")
    # The vector of "zero" has no finite values.
    check(post(send, url, input=["a", "zero"]), 500, type="server_error")
    for model in ("texty", "uncounted"):  # without the signatures of a sentence encoder
        check(post(send, server_of(model), model=model, input="a"), 400, param="model")
    assert "Malformed" in send(url, "GET", PATH).json()["error"]
    body = '{"input": "a", "model": "letters"}'
    assert send(url, "POST", f"{PATH}?api-version=1", body).status_code == 200


@pytest.mark.extra
def test_the_official_client_gets_vectors_and_errors(url):
    openai = pytest.importorskip("openai", reason="needs openai, of the extra parity")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        for encoding in ({}, {"encoding_format": "float"}):  # base64, unless named
            response = client.embeddings.create(model="letters", input=["a", "bb é"], **encoding)
            vectors = [each.embedding for each in response.data]
            np.testing.assert_allclose(vectors, [vector("a"), vector("bb")], rtol=1e-6)
            assert (response.usage.prompt_tokens, response.model) == (7, "letters")
        with pytest.raises(openai.BadRequestError) as error:
            client.embeddings.create(model="letters", input="a", dimensions=9)
        assert (error.value.param, error.value.type) == ("dimensions", "invalid_request_error")
