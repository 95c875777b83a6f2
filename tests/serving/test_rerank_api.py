"""The rerank API of text-embeddings-inference: requests, scores of both kinds of models, errors."""

import json

import numpy as np
import pytest

from bert_keras.serving.calls import Refusal
from bert_keras.serving.limits import Limits
from bert_keras.serving.rerank_api import RerankApi, logits, response_body
from bert_keras.serving.rerank_api import RerankRequest as Request
from bert_keras.serving.server import running_server
from tests.serving.text_models import cross_encoder

TEXTS = ["bb", "", "a long text", "b"]  # their lengths are 2, 0, 11 and 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    cross_encoder(folder / "regression" / "1")
    cross_encoder(folder / "classes" / "1", labels=["not_entailment", "entailment"])
    cross_encoder(folder / "stars" / "1", labels=["1", "2", "3"])
    cross_encoder(folder / "unknown" / "1", labels=["sport", "art"])
    return folder


@pytest.fixture(scope="module")
def url(folder):
    with running_server(folder / "regression") as url:
        yield url


def post(send, url, **fields):
    return send(url, "POST", "/rerank", json.dumps(fields))


def sigmoid(value):
    return 1 / (1 + np.exp(-float(value)))


@pytest.mark.parametrize("model", ["regression", "classes"])
def test_results_are_sorted_by_score(folder, send, model):
    with running_server(folder / model) as url:
        response = post(send, url, query="q" * 2, texts=TEXTS)
        assert response.status == 200
        assert response.headers["Content-Type"] == "application/json"
        assert [list(each) for each in response.json] == [["index", "score"]] * 4
        assert [each["index"] for each in response.json] == [2, 0, 3, 1]
        scores = [each["score"] for each in response.json]
        np.testing.assert_allclose(scores, [sigmoid(x) for x in (9, 0, -1, -2)], rtol=1e-5)
        raw = post(send, url, query="qq", texts=TEXTS, raw_scores=True, return_text=True).json
        assert [list(each) for each in raw] == [["index", "text", "score"]] * 4
        assert [each["text"] for each in raw] == ["a long text", "bb", "b", ""]
        np.testing.assert_allclose([each["score"] for each in raw], [9, 0, -1, -2], atol=2e-3)


def test_ordering_of_probabilities_that_are_rounded_to_one_or_zero():
    probabilities = np.array([[1e-12, 1], [1e-20, 1], [1, 0]], np.float32)
    labels = np.array([[b"0", b"1"]] * 3, object)
    scores = logits({"probabilities": probabilities, "labels": labels})
    results = json.loads(response_body(Request("", ["a", "b", "c"], False, False), scores))
    assert [(each["index"], each["score"] > 0.5) for each in results] == [
        (1, True),
        (0, True),
        (2, False),
    ]
    scores = logits({"probabilities": probabilities[:, ::-1], "labels": labels[:, ::-1]})
    assert np.argmax(scores) == 1
    for large in (1e6, -1e6):
        (result,) = json.loads(
            response_body(Request("", ["a"], False, False), np.array([large], np.float64))
        )
        assert result == {"index": 0, "score": float(large > 0)}


@pytest.mark.parametrize(
    ("fields", "status", "error_type", "message"),
    [
        ({"texts": ["a"]}, 422, "validation", "`query` is a JSON Null; expected a text"),
        ({"query": "q"}, 422, "validation", "`texts` has another type; expected a list of texts"),
        ({"query": "q", "texts": ["a", 1]}, 422, "validation", "`texts` has another type; expect"),
        ({"query": "q", "texts": []}, 400, "empty", "`texts` cannot be empty"),
        (
            {"query": "q", "texts": ["a"], "raw_scores": 1},
            422,
            "validation",
            "`raw_scores` is a JSON Number; expected true or false",
        ),
        (
            {"query": "q", "texts": ["a"], "truncate": False},
            422,
            "validation",
            "`truncate` is false, but the model always cuts long pairs; expected true",
        ),
        (
            {"query": "q", "texts": ["a"], "truncation_direction": "Left"},
            422,
            "validation",
            "`truncation_direction` has another value; expected right",
        ),
    ],
)
def test_refused_fields(url, send, fields, status, error_type, message):
    response = post(send, url, **fields)
    assert (response.status, response.json["error_type"]) == (status, error_type)
    assert response.json["error"].startswith(message)


def test_fields_with_their_default_values_are_accepted(url, send):
    fields = {"raw_scores": None, "return_text": False, "truncate": True, "model": "any"}
    response = post(send, url, query="", texts=["é"], truncation_direction="Right", **fields)
    assert (response.status, len(response.json)) == (200, 1)


def test_models_that_are_no_rerankers(folder, server_of, send):
    fields = {"query": "q", "texts": ["a"]}
    response = post(send, server_of("texty"), **fields)
    assert (response.status, response.json) == (
        424,
        {
            "error": "model is not a re-ranker model: expected a regression or a classifier of two "
            "texts",
            "error_type": "backend",
        },
    )
    for model, labels in (("stars", "1, 2, 3"), ("unknown", "sport, art")):
        with running_server(folder / model) as url:
            response = post(send, url, **fields)
        assert (response.status, response.json["error_type"]) == (424, "backend")
        assert f"its labels are {labels}; expected two, one of them 1, " in response.json["error"]
    with pytest.raises(Refusal, match="its labels are 0, 1; expected"):  # several labels at once
        probabilities = np.array([[0.9, 0.9]], np.float32)
        logits({"probabilities": probabilities, "labels": np.array([[b"0", b"1"]], object)})
    with pytest.raises(Refusal, match="score that is not a finite number") as error:
        logits({"score": np.array([np.nan], np.float32)})
    assert error.value.status == 500


def test_limits_and_metrics(folder, send):
    with running_server(folder / "regression", limits=Limits(max_body_bytes=100)) as url:
        response = post(send, url, query="q", texts=["a" * 100])
        assert (response.status, response.json["error_type"]) == (413, "validation")
        assert post(send, url, query="q", texts=["a"]).status == 200
        assert send(url, "POST", "/rerank", "{").json["error_type"] == "validation"
        assert send(url, "GET", "/rerank").body.startswith(b"<HTML>")
        metrics = send(url, "GET", "/monitoring/prometheus/metrics").body.decode()
    assert (
        'request_latency_count{API="rerank",entrypoint="REST",model_name="regression"}' in metrics
    )
    for status, expected, error_type in ((503, 429, "overloaded"), (504, 504, "backend")):
        assert RerankApi.error(None, Refusal("full", status=status)) == (
            expected,
            f'{{"error": "full", "error_type": "{error_type}"}}'.encode(),
        )
