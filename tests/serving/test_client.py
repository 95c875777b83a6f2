"""The clients send instances and return predictions or raise the server's error."""

import json
import time

import httpx
import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.serving.client import Client

URL = "http://host:8501/proxied/v1/models/m/versions/3"
BUSY = (503, '{"error": "come later"}')


def predict(url, instances, *, signature_name=None, **settings):
    with Client(url, **settings) as client:
        return client.predict(instances, signature_name=signature_name)


@pytest.fixture
def answer(monkeypatch):
    """A function that lets a server give replies in turn, then doubled inputs, and returns the
    list of its requests. A reply is (status, text) or an exception."""

    def answer(*replies):
        def handle(request):
            requests.append(json.loads(request.content))
            if isinstance(reply := next(remaining, None), Exception):
                raise reply
            if reply is None:
                doubled = [2 * each for each in requests[-1]["instances"]]
                reply = (200, json.dumps({"predictions": doubled}))
            return httpx.Response(reply[0], text=reply[1], request=request)

        requests, remaining = [], iter(replies)
        send = httpx.MockTransport(handle).handle_request
        monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda _, request: send(request))
        return requests

    return answer


def test_predictions(server_of):
    url = f"{server_of('half_plus_two')}/v1/models/half_plus_two"
    assert predict(url, [1.0, 2.0]) == [2.5, 3.0]
    assert predict(f"{url}/versions/124:predict/", [{"x": 4}]) == [4.0]
    url = f"{server_of('texty')}/v1/models/texty"
    predictions = predict(url, [b"abcdef", np.bytes_(b"\xff")], signature_name="bytes")
    assert [each["out_bytes"] for each in predictions] == [{"b64": "YWJjZA=="}, {"b64": "/w=="}]
    predictions = predict(url, [{"a": np.ones(2), "b": np.int64(2)}], signature_name="multi")
    assert predictions == [{"sum": [3.0, 4.0], "b2": 4, "flag": True}]


@pytest.mark.parametrize(
    ("instances", "settings"),
    [
        *((["a"], {}), ("a text", {}), ([1.0], {"signature_name": "gone"})),
        *(([1.0], {"batch_size": 0}), ([1.0], {"url": "http://host:8501"})),
        ([1.0], {"url": "grpc://h/v1/models/m"}),
        ([1.0], {"url": "http://127.0.0.1:1/v1/models/m", "num_attempts": 1}),
    ],
)
def test_mistakes(server_of, instances, settings):
    url = f"{server_of('half_plus_two')}/v1/models/half_plus_two"
    with pytest.raises(InputError):
        predict(**{"url": url, "instances": instances, **settings})


def test_many_instances_are_sent_in_bounded_requests(answer):
    requests = answer()
    with Client(URL, batch_size=4) as client:
        assert client.predict(range(10)) == [2 * each for each in range(10)]
        assert [len(each["instances"]) for each in requests] == [4, 4, 2]
        assert client.predict([]) == []
        assert client.predict([1], signature_name="s") == [2]
    assert requests[3:] == [{"signature_name": "s", "instances": [1]}]


def test_a_busy_server_and_a_lost_connection_are_retried(answer):
    requests, start = answer(BUSY, (429, "{}"), httpx.ReadError("")), time.monotonic()
    assert predict(URL, [1, 2]) == [2, 4]
    assert time.monotonic() - start > 0.25 + 0.5 + 1
    assert len(requests) == 4


@pytest.mark.parametrize(
    ("reply", "attempts", "found"),
    [
        (BUSY, 2, "come later"),
        (httpx.ReadError(""), 2, "ReadError"),
        (httpx.ReadTimeout(""), 1, "60 "),
        ((404, '{"error": "no such model"}'), 1, "no such model"),
        ((500, "<html>"), 1, "500"),
        ((301, ""), 1, "301"),
        ((200, "<html>hello"), 1, "<html>hello"),
        ((200, "[1]"), 1, r"\[1\]"),
        ((200, '{"predictions": [1, 2, 3]}'), 1, "1, 2, 3"),
    ],
)
def test_attempts_are_limited_and_rejected_requests_are_not_retried(answer, reply, attempts, found):
    requests = answer(reply, reply)
    with pytest.raises(InputError, match=found):
        predict(URL, [1], num_attempts=2)
    assert len(requests) == attempts
