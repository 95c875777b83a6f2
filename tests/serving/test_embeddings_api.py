"""OpenAI's embeddings API: requests, responses and errors; the official client gets vectors."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bert_keras.serving.embeddings_api import EmbeddingsApi, shortened
from bert_keras.serving.limits import Limits
from bert_keras.serving.server import running_server
from tests.serving.text_models import embedder

PATH = "/v1/embeddings"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    embedder(folder / "letters" / "1")
    embedder(folder / "uncounted" / "1", has_counts=False)
    return folder


@pytest.fixture(scope="module")
def url(folder):
    with running_server(folder / "letters") as url:
        yield url


def vector(text, dimensions=4):
    counts = np.array([1 + text.count(letter) for letter in "abcd"[:dimensions]], np.float32)
    return counts / np.linalg.norm(counts)


def post(send, url, **fields):
    return send(url, "POST", PATH, json.dumps({"model": "letters", **fields}))


def test_one_text(url, send):
    response = post(send, url, input="a bad cab", user="me", dimensions=None)
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/json"
    document = response.json
    np.testing.assert_allclose(document["data"][0].pop("embedding"), vector("a bad cab"), rtol=1e-6)
    assert document == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0}],
        "model": "letters",
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }
    assert list(response.json) == ["object", "data", "model", "usage"]


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
@pytest.mark.parametrize("dimensions", [None, 1, 3, 4])
def test_texts_keep_their_order_in_each_format(url, send, encoding_format, dimensions):
    texts = [f"{'a' * n} d" for n in range(70)]  # more than one run takes
    fields = {"encoding_format": encoding_format}
    if dimensions:
        fields["dimensions"] = dimensions
    document = post(send, url, input=texts, **fields).json
    assert [each["index"] for each in document["data"]] == list(range(70))
    vectors = [each["embedding"] for each in document["data"]]
    if encoding_format == "base64":
        vectors = [np.frombuffer(base64.b64decode(each), "<f4") for each in vectors]
    expected = [vector(text, dimensions or 4) for text in texts]
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)
    assert document["usage"] == {"prompt_tokens": 70 * 4 - 1, "total_tokens": 70 * 4 - 1}


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({}, "input", "input is missing; expected a text or a list of texts"),
        ({"input": []}, "input", "input is a JSON Array; expected a text or a list of texts"),
        ({"input": 3}, "input", "input is 3; expected a text or a list of texts"),
        ({"input": ""}, "input", "input[0] is ''; expected a text"),
        ({"input": ["a", None]}, "input", "input[1] is missing; expected a text"),
        ({"input": ["a", {"b64": "YQ=="}]}, "input", "input[1] is a JSON Object; expected a text"),
        ({"input": [101, 102]}, "input", "input contains token ids; expected texts, because "),
        ({"input": [[101], [102]]}, "input", "input contains token ids; expected texts, because "),
        ({"input": ["a"] * 2049}, "input", "input has 2,049 texts; expected at most 2,048"),
        ({"input": "a", "model": None}, "model", "model is missing; expected the name of"),
        ({"input": "a", "dimensions": 0}, "dimensions", "dimensions is 0; expected an integer"),
        ({"input": "a", "dimensions": True}, "dimensions", "dimensions is True; expected an"),
        ({"input": "a", "dimensions": "3"}, "dimensions", "dimensions is '3'; expected an integer"),
        ({"input": "a", "dimensions": 5}, "dimensions", "dimensions is 5; expected at most 4, the"),
        (
            {"input": "a", "encoding_format": "int8"},
            "encoding_format",
            "encoding_format is 'int8'; expected float or base64",
        ),
        (
            {"input": "a", "encoding_format": []},
            "encoding_format",
            "encoding_format is a JSON Array; expected float or base64",
        ),
        ({"input": "a", "prompt_name": "x"}, "prompt_name", "Unrecognized request argument: promp"),
    ],
)
def test_refused_parameters(url, send, fields, param, message):
    response = post(send, url, **fields)
    assert response.status == 400
    error = response.json["error"]
    assert error["message"].startswith(message)
    expected = {"type": "invalid_request_error", "param": param, "code": None}
    assert {name: error[name] for name in expected} == expected
    assert error.keys() == {"message", *expected}


@pytest.mark.parametrize("body", ["", "{", "[1]", '{"input": "\\ud800"}'])
def test_other_bodies_are_refused_in_the_form_of_the_api(url, send, body):
    response = send(url, "POST", PATH, body)
    assert response.status == 400
    assert response.json["error"]["type"] == "invalid_request_error"


def test_an_unknown_model(url, send):
    response = post(send, url, input="a", model="gpt")
    assert response.status == 404
    assert response.json["error"] == {
        "message": "The model 'gpt' does not exist; expected 'letters'",
        "type": "invalid_request_error",
        "param": None,
        "code": "model_not_found",
    }


def test_bytes_that_are_not_utf_8_and_values_that_are_not_finite(url, send):
    assert send(url, "POST", PATH, b'{"model": "letters", "input": "\xff"}').status == 200
    response = post(send, url, input=["a", "zero"])
    assert response.status == 500
    message = "The model returned a value that is not a finite number"
    expected = {"message": message, "type": "server_error", "param": None, "code": None}
    assert response.json == {"error": expected}


def test_shortened_embeddings_of_a_model_that_does_not_scale_them():
    embeddings = np.array([[3, 4, 0], [0.6, 0, 0.8]], np.float32)
    np.testing.assert_allclose(shortened(embeddings, 2), [[3, 4], [1, 0]])


def test_models_without_the_signatures(server_of, folder, send):
    body = json.dumps({"model": "texty", "input": "a"})
    response = send(server_of("texty"), "POST", PATH, body)
    assert response.status == 400
    assert response.json["error"]["message"].startswith("The model 'texty' returns no embeddings")
    with running_server(folder / "uncounted") as url:
        response = post(send, url, model="uncounted", input="a")
        assert "has no signature num_tokens, which counts" in response.json["error"]["message"]


def test_only_post_is_of_this_api(url, send):
    assert send(url, "GET", PATH).json == {"error": f"Malformed request: GET {PATH}"}
    assert (
        send(url, "POST", f"{PATH}?api-version=1", '{"input": "a", "model": "letters"}').status
        == 200
    )
    assert send(url, "POST", f"{PATH}/", "{}").json == {"error": f"Malformed request: POST {PATH}/"}


def test_limits(folder, send):
    limits = Limits(max_body_bytes=100, seconds=1)
    with running_server(folder / "letters", limits=limits) as url:
        response = post(send, url, input="a" * 100)
        assert response.status == 413
        assert response.json["error"]["type"] == "invalid_request_error"
        assert "has more than 100 bytes" in response.json["error"]["message"]
    status, body = EmbeddingsApi.error(None, refusal(503))
    assert (status, json.loads(body)["error"]["type"]) == (503, "server_error")


def refusal(status):
    from bert_keras.serving.calls import Refusal

    return Refusal("full", status=status)


def test_concurrent_requests_get_their_own_vectors_and_are_counted(folder, send):
    with running_server(folder / "letters") as url:
        texts = ["a" * n for n in range(1, 33)]
        with ThreadPoolExecutor(8) as pool:
            responses = list(pool.map(lambda text: post(send, url, input=text), texts))
        for text, response in zip(texts, responses, strict=True):
            np.testing.assert_allclose(
                response.json["data"][0]["embedding"], vector(text), rtol=1e-5
            )
        post(send, url, input="a", model="gpt")
        metrics = send(url, "GET", "/monitoring/prometheus/metrics").body.decode()
    assert (
        'request_latency_count{API="embeddings",entrypoint="REST",model_name="letters"} 32.0'
        in metrics
    )
    assert ':tensorflow:serving:request_count{model_name="letters",status="OK"} 32' in metrics
    assert ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"} 1' in metrics


@pytest.mark.extra
class TestOfficialClient:
    """The vectors and errors of the package `openai`."""

    @pytest.fixture
    def openai(self):
        return pytest.importorskip("openai", reason="needs openai, of the extra parity")

    @pytest.fixture
    def client(self, openai, url):
        with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
            yield client

    def test_one_text_as_base64(self, client):
        """The client asks for base64 unless the caller names a format."""
        response = client.embeddings.create(model="letters", input="a bad cab")
        np.testing.assert_allclose(response.data[0].embedding, vector("a bad cab"), rtol=1e-6)
        assert (response.usage.prompt_tokens, response.usage.total_tokens) == (5, 5)
        assert (response.model, response.object) == ("letters", "list")

    @pytest.mark.parametrize("encoding_format", ["float", "base64"])
    def test_texts(self, client, encoding_format):
        response = client.embeddings.create(
            model="letters", input=["a", "bb é 東"], encoding_format=encoding_format, dimensions=2
        )
        assert [each.index for each in response.data] == [0, 1]
        vectors = [each.embedding for each in response.data]
        if encoding_format == "base64" and isinstance(vectors[0], str):
            vectors = [np.frombuffer(base64.b64decode(each), "<f4") for each in vectors]
        np.testing.assert_allclose(vectors, [vector("a", 2), vector("bb", 2)], rtol=1e-6)

    def test_errors(self, openai, client):
        with pytest.raises(openai.BadRequestError, match="expected at most 4") as error:
            client.embeddings.create(model="letters", input="a", dimensions=9)
        assert (error.value.param, error.value.type) == ("dimensions", "invalid_request_error")
        with pytest.raises(openai.NotFoundError, match="'gpt' does not exist") as error:
            client.embeddings.create(model="gpt", input="a")
        assert error.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError, match="contains token ids"):
            client.embeddings.create(model="letters", input=[1, 2, 3])

    def test_asynchronous(self, openai, url):
        import asyncio

        async def embed():
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused") as client:
                calls = [client.embeddings.create(model="letters", input="a" * n) for n in (1, 5)]
                return [each.data[0].embedding for each in await asyncio.gather(*calls)]

        np.testing.assert_allclose(asyncio.run(embed()), [vector("a"), vector("a" * 5)], rtol=1e-6)
