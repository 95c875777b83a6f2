"""Limits are validated; bodies that are too large, too slow or too many are refused."""

import asyncio
import gzip
import json
import socket
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request

from bert_keras.errors import InputError
from bert_keras.serving.batching import Batcher
from bert_keras.serving.limits import BodyReader, Limits
from bert_keras.serving.server import running_server

PATH = "/v1/models/half_plus_two:predict"
ONE = b'{"instances": [1.0]}'
FULL = "The batch scheduling queue to which this task was submitted is full"


@pytest.fixture(scope="module")
def url(models):
    limits = Limits(max_body_bytes=1000, max_total_bytes=1500, max_requests=3, seconds=1.5)
    with running_server(models / "half_plus_two", limits=limits) as url:
        yield url


def test_a_too_large_body_is_refused(url, send):
    response = send(url, "POST", PATH, ONE + b" " * 1000)
    assert response.status == 413
    assert "has more than 1000 bytes" in response.json["error"]
    assert send(url, "POST", PATH, ONE).status == 200


def test_the_connection_stays_open_after_a_large_body_is_refused(url):
    import http.client

    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    for body, status in ((b"x" * 2_000_000, 413), (ONE, 200)):
        connection.request("POST", PATH, body)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_a_small_gzip_body_with_large_content_is_refused(url, send):
    headers = {"Content-Encoding": "gzip"}
    bomb = gzip.compress(b"0" * 300_000)
    assert len(bomb) < 1000
    assert send(url, "POST", PATH, bomb, headers).status == 413


def test_a_body_that_arrives_in_parts_is_kept_in_memory_once():
    numbers = iter(range(64))

    async def receive():
        return {"type": "http.request", "body": bytes(2**16), "more_body": next(numbers) < 63}

    async def memory():
        async with BodyReader(Limits()).body(Request({"type": "http", "headers": []}, receive)):
            return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        assert asyncio.run(memory()) < 1.5 * 2**22
    finally:
        tracemalloc.stop()


def unfinished(url, body=b""):
    """A connection whose request announces more bytes than it sends."""
    connection = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=10)
    connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n".encode())
    connection.sendall(body)
    return connection


def test_a_slow_body_times_out_while_other_requests_are_served(url, send):
    with unfinished(url, b"{") as slow:
        assert send(url, "POST", PATH, ONE).status == 200
        answer = b""
        while not answer.endswith(b"}"):
            answer += slow.recv(65536) or b"}"
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"The request body did not arrive within 1.5 s" in answer


def test_too_many_requests_and_too_many_bytes_are_refused(url, send):
    waiting = [unfinished(url) for _ in range(3)]
    wait_for(lambda: send(url, "POST", PATH, ONE).status == 503)
    assert send(url, "POST", PATH, ONE).json == {"error": FULL}
    assert send(url, "GET", "/v1/models/half_plus_two").status == 200
    for connection in waiting:
        connection.close()
    wait_for(lambda: send(url, "POST", PATH, ONE).status == 200)
    with unfinished(url, b" " * 900):
        wait_for(lambda: send(url, "POST", PATH, ONE + b" " * 900).status == 503)
        assert send(url, "POST", PATH, ONE).status == 200
    wait_for(lambda: send(url, "POST", PATH, ONE + b" " * 900).status == 200)


def wait_for(happened):
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def odd(models):
    with running_server(models / "odd", limits=Limits(seconds=1)) as url:
        yield url


def slow_body(n):
    return json.dumps({"signature_name": "slow", "instances": [n]})


def test_a_request_that_takes_too_long_is_refused(odd, send):
    start = time.monotonic()
    response = send(odd, "POST", "/v1/models/odd:predict", slow_body(2**31 - 1))
    assert response.status == 504
    assert time.monotonic() - start < 5
    assert send(odd, "POST", "/v1/models/odd:predict", slow_body(3)).json == {"predictions": [3]}


def test_preparing_many_rows_does_not_delay_others(server_of, send, monkeypatch):
    url, is_free, prepare = server_of("half_plus_two"), threading.Event(), Batcher.prepare

    def slow(self, signature_name, tensors):
        if len(tensors["x"]) > 1:
            assert is_free.wait(20)
        return prepare(self, signature_name, tensors)

    monkeypatch.setattr(Batcher, "prepare", slow)
    many = json.dumps({"instances": [1.0] * 5000}).encode()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(send, url, "POST", PATH, many)
        for _ in range(30):
            assert send(url, "POST", PATH, ONE).status == 200
        is_free.set()
        assert waiting.result(20).json == {"predictions": [2.5] * 5000}


def test_disconnecting_clients_do_not_delay_others(odd, send):
    body = slow_body(2**31 - 1).encode()
    head = f"POST /v1/models/odd:predict HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(10):  # of a second each, were they all run
        with socket.create_connection((urlsplit(odd).hostname, urlsplit(odd).port)) as connection:
            connection.sendall(head.encode() + body)
            time.sleep(0.05)
    start = time.monotonic()
    strict = '{"signature_name": "strict", "instances": [4.0]}'
    wait_for(lambda: send(odd, "POST", "/v1/models/odd:predict", strict).status == 200)
    assert time.monotonic() - start < 4


def test_concurrent_requests_get_their_own_predictions_or_errors(server_of, send):
    url = server_of("odd")

    def send_request(number):
        value = -1.0 if number % 10 == 0 else float(number)
        name = ("strict", "centred")[number % 2]
        body = {"signature_name": name, "instances": [value, value + 1]}
        return send(url, "POST", "/v1/models/odd:predict", json.dumps(body))

    with ThreadPoolExecutor(16) as pool:
        predictions = list(pool.map(send_request, range(300)))
    for number, answer in enumerate(predictions):
        if number % 10 == 0:
            assert (answer.status, "negative" in answer.json["error"]) == (400, True)
        elif number % 2:
            assert answer.json == {"predictions": [-0.5, 0.5]}
        else:
            assert answer.json == {"predictions": [2.0 * number, 2.0 * number + 2]}
    assert threading.active_count() < 100


def test_rows_with_outputs_as_long_as_the_longest_row_are_not_joined(server_of, send):
    url, texts = server_of("odd"), ["a", "b c", "d e f", "g h i j"]

    def send_request(number):
        body = json.dumps({"signature_name": "words", "instances": [texts[number % 4]]})
        return send(url, "POST", "/v1/models/odd:predict", body).json["predictions"][0]["words"]

    with ThreadPoolExecutor(8) as pool:
        predictions = list(pool.map(send_request, range(80)))
    assert predictions == [texts[number % 4].split() for number in range(80)]


@pytest.mark.parametrize(
    "changes", [{"max_batch_size": 0}, {"seconds": 0}, {"seconds": float("nan")}]
)
def test_invalid_limits_are_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        Limits(**changes)
