"""OpenAI's embeddings API: requests, responses and errors; the official client gets vectors."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from bert_keras.embedding import EmbeddingConfig
from bert_keras.exporting import saved_model
from bert_keras.exporting.export import export
from bert_keras.models import BertSentenceEncoder
from bert_keras.serving.embeddings_api import error_response
from bert_keras.serving.limits import Limits
from bert_keras.serving.requests import Refusal
from bert_keras.serving.server import running_server
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import tiny_config, tiny_vocabulary
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
    assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
    document = response.json
    np.testing.assert_allclose(document["data"][0].pop("embedding"), vector("a bad cab"), rtol=1e-6)
    assert document == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0}],
        "model": "letters",
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
@pytest.mark.parametrize("dimensions", [None, 1, 3, 4])
def test_texts_keep_their_order_in_each_format(url, send, encoding_format, dimensions):
    texts = [f"{'a' * n} d" for n in range(70)]  # more than one run takes
    fields = {"encoding_format": encoding_format, "dimensions": dimensions}
    document = post(send, url, input=texts, **fields).json
    assert [each["index"] for each in document["data"]] == list(range(70))
    vectors = [each["embedding"] for each in document["data"]]
    if encoding_format == "base64":
        vectors = [np.frombuffer(base64.b64decode(each), "<f4") for each in vectors]
    expected = [vector(text, dimensions or 4) for text in texts]
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)
    assert document["usage"] == {"prompt_tokens": 70 * 4 - 1, "total_tokens": 70 * 4 - 1}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        *[({"input": value}, "input") for value in ([], 3, "", ["a", None], [101, 102], [[101]])],
        ({"input": ["a", {"b64": "YQ=="}]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        *[({"input": "a", "dimensions": value}, "dimensions") for value in (0, True, "3", 5)],
        *[({"input": "a", "encoding_format": value}, "encoding_format") for value in ("int8", [])],
        ({"input": "a", "prompt_name": "x"}, "prompt_name"),
    ],
)
def test_refused_parameters(url, send, fields, param):
    response = post(send, url, **fields)
    assert response.status == 400
    error = response.json["error"]
    assert param in error.pop("message")
    assert error == {"type": "invalid_request_error", "param": param, "code": None}


@pytest.mark.parametrize("body", ["", "{", "[1]", '{"model": "letters", "input": "\\ud800"}'])
def test_other_bodies_are_refused_in_the_form_of_the_api(url, send, body):
    response = send(url, "POST", PATH, body)
    assert response.status == 400
    assert response.json["error"]["type"] == "invalid_request_error"


def test_an_unknown_model_and_values_that_are_not_finite(url, send):
    response = post(send, url, input="a", model="gpt")
    assert response.status == 404
    assert response.json["error"]["code"] == "model_not_found"
    response = post(send, url, input=["a", "zero"])
    assert response.status == 500
    assert response.json["error"]["type"] == "server_error"


def test_models_without_the_signatures(server_of, folder, send):
    response = post(send, server_of("texty"), model="texty", input="a")
    assert response.status == 400
    assert "serving_default" in response.json["error"]["message"]
    with running_server(folder / "uncounted") as url:
        response = post(send, url, model="uncounted", input="a")
        assert "num_tokens" in response.json["error"]["message"]


def test_only_post_is_of_this_api(url, send):
    assert "Malformed" in send(url, "GET", PATH).json["error"]
    assert "Malformed" in send(url, "POST", f"{PATH}/", "{}").json["error"]
    body = '{"input": "a", "model": "letters"}'
    assert send(url, "POST", f"{PATH}?api-version=1", body).status == 200


def test_limits(folder, send):
    with running_server(folder / "letters", limits=Limits(max_body_bytes=100)) as url:
        response = post(send, url, input="a" * 100)
        assert response.status == 413
        assert response.json["error"]["type"] == "invalid_request_error"
    assert error_response(Refusal("full", status=503))["error"]["type"] == "server_error"


def test_concurrent_requests_get_their_own_vectors_and_are_counted(folder, send):
    with running_server(folder / "letters") as url:
        texts = ["a" * n for n in range(1, 33)]
        with ThreadPoolExecutor(8) as pool:
            responses = list(pool.map(lambda text: post(send, url, input=text), texts))
        vectors = [response.json["data"][0]["embedding"] for response in responses]
        metrics = send(url, "GET", "/monitoring/prometheus/metrics").body.decode()
    np.testing.assert_allclose(vectors, [*map(vector, texts)], rtol=1e-5)
    assert 'count{API="embeddings",entrypoint="REST",model_name="letters"} 32.0' in metrics


def test_an_exported_sentence_encoder_embeds_texts(tmp_path, send, monkeypatch):
    monkeypatch.setattr(saved_model, "run_in_fresh_process", lambda *_: [])
    keras.utils.set_random_seed(1)
    encoder = BertSentenceEncoder(
        tiny_config(max_positions=8), embedding=EmbeddingConfig(pooling=("cls", "mean"))
    )
    encoder.save_pretrained(tmp_path / "model", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
    export(tmp_path / "model", tmp_path / "saved" / "vectors" / "1")
    model = BertSentenceEncoder.from_pretrained(tmp_path / "model")
    texts = ["a good film", "bad", "the river was good the bank was bad", "is un"]  # one is cut
    with running_server(tmp_path / "saved" / "vectors") as url:
        for dimensions in (None, 5):
            response = post(send, url, model="vectors", input=texts, dimensions=dimensions).json
            vectors = [each["embedding"] for each in response["data"]]
            expected = model.encode(texts, dimensions=dimensions)
            np.testing.assert_allclose(vectors, expected, atol=1e-5)
            assert response["usage"]["total_tokens"] == 5 + 3 + 8 + 4


@pytest.mark.extra
def test_the_official_client_gets_vectors_and_errors(url):
    openai = pytest.importorskip("openai", reason="needs openai, of the extra parity")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        create = client.embeddings.create
        response = create(model="letters", input="a bad cab")  # as base64, unless named
        np.testing.assert_allclose(response.data[0].embedding, vector("a bad cab"), rtol=1e-6)
        assert (response.usage.prompt_tokens, response.model) == (5, "letters")
        response = create(
            model="letters", input=["a", "bb é 東"], encoding_format="float", dimensions=2
        )
        vectors = [each.embedding for each in response.data]
        np.testing.assert_allclose(vectors, [vector("a", 2), vector("bb", 2)], rtol=1e-6)
        with pytest.raises(openai.BadRequestError, match="expected at most 4") as error:
            create(model="letters", input="a", dimensions=9)
        assert (error.value.param, error.value.type) == ("dimensions", "invalid_request_error")
        with pytest.raises(openai.NotFoundError, match="gpt does not exist") as error:
            create(model="gpt", input="a")
        assert error.value.code == "model_not_found"
