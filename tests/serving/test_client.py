"""The clients send instances and return predictions or raise the server's error."""

import asyncio
import json
import math
import threading
import time

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.serving.client import AsyncClient, Client
from tests.serving.scripted import json_reply, scripted_server

PATH = "/v1/models/m"
BUSY = json_reply({"error": "come later"}, status=503, **{"Retry-After": "0"})


def predict(url, instances, *, signature_name=None, **settings):
    with Client(url, **settings) as client:
        return client.predict(instances, signature_name=signature_name)


def doubled(method, path, body):
    return json_reply({"predictions": [2 * each for each in json.loads(body)["instances"]]})


def in_turn(*replies):
    """A reply function that returns each of `replies`, then doubled inputs."""
    remaining = list(replies)
    return lambda *request: remaining.pop(0) if remaining else doubled(*request)


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
    ("instances", "settings", "message"),
    [
        ([1.0], {"signature_name": "no"}, 'returned 400: Serving signature name: "no" not found'),
        (["a"], {}, "returned 400: .*element: 0 .*String"),
        ("a text", {}, "instances is a str"),
        ([{1}], {}, "an instance contains a set"),
        ([1.0], {"num_attempts": 0}, "num_attempts is 0"),
        ([1.0], {"batch_size": 0}, "batch_size is 0"),
        *(([1.0], {"timeout": seconds}, f"timeout is {seconds}") for seconds in (0, math.nan)),
        ([1.0], {"url": "http://host:8501"}, "http://host:8501 is not the URL of a model"),
        ([1.0], {"url": "grpc://h/v1/models/m"}, "grpc://h/v1/models/m is not the URL"),
        (
            [1.0],
            {"url": "http://127.0.0.1:1/v1/models/m", "num_attempts": 1},
            r"no server responds at http://127\.0\.0\.1:1/v1.*refuse",
        ),
    ],
)
def test_mistakes(server_of, instances, settings, message):
    url = f"{server_of('half_plus_two')}/v1/models/half_plus_two"
    with pytest.raises(InputError, match=message):
        predict(**{"url": url, "instances": instances, **settings})


def test_many_instances_are_sent_in_bounded_requests_over_one_connection():
    url = f"/proxied{PATH}/versions/3"
    with scripted_server(doubled) as server, Client(server.url + url, batch_size=4) as client:
        assert client.predict(range(10)) == [2 * each for each in range(10)]
        assert [len(each["instances"]) for each in server.documents] == [4, 4, 2]
        assert client.predict([]) == []
        assert client.predict([1], signature_name="s") == [2]
        assert server.documents[3]["signature_name"] == "s"
        assert len(set(server.connections)) == 1
        assert {path for _, path, _ in server.requests} == {f"{url}:predict"}


def test_a_busy_server_and_a_lost_connection_are_retried():
    too_many = json_reply({}, status=429, **{"Retry-After": "0"})
    with scripted_server(in_turn(BUSY, too_many, None)) as server:
        start = time.monotonic()
        assert predict(server.url + PATH, [1, 2]) == [2, 4]
        assert time.monotonic() - start > 0.2
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("reply", "attempts", "message"),
    [
        (BUSY, 2, "returned 503: come later"),
        (json_reply({"error": "no such model"}, status=404), 1, "returned 404: no such model"),
        ((500, {}, b"<html>"), 1, "returned 500: Internal Server Error"),
        ((301, {"Location": "/"}, b""), 1, "returned 301: Moved Permanently"),
        ((200, {}, b"<html>hello"), 1, "returned no predictions but '<html>hello'"),
        (json_reply([1]), 1, r"returned no predictions but '\[1\]'"),
        (json_reply({"predictions": [1, 2, 3]}), 1, "returned 3 predictions for 1 instance;"),
    ],
)
def test_attempts_are_limited_and_rejected_requests_are_not_retried(reply, attempts, message):
    with scripted_server(in_turn(reply, reply)) as server:
        with pytest.raises(InputError, match=message):
            predict(server.url + PATH, [1], num_attempts=2)
        assert len(server.requests) == attempts


def test_a_slow_server_causes_a_timeout_error():
    done = threading.Event()
    with scripted_server(lambda *_: done.wait(20) and None) as server:
        with pytest.raises(InputError, match=r"took more than 0\.2 seconds"):
            predict(server.url + PATH, [1], timeout=0.2)
        done.set()
        assert len(server.requests) == 1


def test_async_calls_run_in_parallel_keep_their_order_and_are_retried():
    together = threading.Barrier(3)

    def reply(*request):
        if b"wait" in request[2]:
            together.wait(20)
        return doubled(*request)

    async def predict_all(url):
        async with AsyncClient(url, batch_size=2) as client:
            predictions = await asyncio.gather(*(client.predict([f"wait{n}"]) for n in range(3)))
            return predictions, await client.predict(range(5))

    async def predict_once(url):
        async with AsyncClient(url, num_attempts=2) as client:
            return await client.predict([1])

    with scripted_server(reply) as server:
        predictions, numbers = asyncio.run(predict_all(server.url + PATH))
    assert predictions == [[f"wait{n}wait{n}"] for n in range(3)]
    assert numbers == [0, 2, 4, 6, 8]
    with scripted_server(in_turn(BUSY, None, BUSY)) as server:
        with pytest.raises(InputError, match="no server responds at"):
            asyncio.run(predict_once(server.url + PATH))
        assert asyncio.run(predict_once(server.url + PATH)) == [2]
