"""Limits are validated; bodies that are too large, too slow or too many are refused."""

import gzip
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.limits import Limits
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


def test_a_small_gzip_body_with_large_content_is_refused(url, send):
    headers = {"Content-Encoding": "gzip"}
    bomb = gzip.compress(b"0" * 300_000)
    assert len(bomb) < 1000
    assert send(url, "POST", PATH, bomb, headers).status == 413


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
    """The rows of `bytes` share runs; those of `centred` depend on each other and must not."""

    def send_request(number):
        value = -1.0 if number % 10 == 0 else float(number)
        name = ("strict", "centred", "bytes")[number % 3]
        model = "texty" if name == "bytes" else "odd"
        rows = [f"a{number}", "b"] if name == "bytes" else [value, value + 1]
        body = json.dumps({"signature_name": name, "instances": rows})
        return send(server_of(model), "POST", f"/v1/models/{model}:predict", body)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(send_request, range(300)))
    for number, answer in enumerate(answers):
        if number % 3 == 0 and number % 10 == 0:
            assert (answer.status, "negative" in answer.json["error"]) == (400, True)
            continue
        predictions = answer.json["predictions"]
        if number % 3 == 2:
            assert [row["out"] for row in predictions] == [f"A{number}", "B"]
        else:
            expected = [-0.5, 0.5] if number % 3 else [2.0 * number, 2.0 * number + 2]
            assert predictions == expected


def test_invalid_limits_are_refused():
    for changes in ({"max_batch_size": 0}, {"seconds": 0}, {"seconds": float("nan")}):
        with pytest.raises(InputError, match=next(iter(changes))):
            Limits(**changes)
