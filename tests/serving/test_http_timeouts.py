"""Connections that send no request or read no response are closed."""

import http.client
import json
import socket
import time
from urllib.parse import urlsplit

import pytest

from bert_keras.serving import http_timeouts
from bert_keras.serving.server import running_server

HEAD = b"GET /v1/models/half_plus_two HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture
def address(models, monkeypatch):
    monkeypatch.setattr(http_timeouts, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(http_timeouts, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(http_timeouts, "RESPONSE_SECONDS", 1)
    with running_server(models / "half_plus_two") as url:
        yield urlsplit(url).hostname, urlsplit(url).port


@pytest.mark.parametrize("sent", [b"", HEAD])
def test_unfinished_headers_time_out(address, sent):
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(sent)
        assert is_dropped(connection)


def test_headers_that_arrive_byte_by_byte_time_out(address):
    with socket.create_connection(address, timeout=5) as connection, pytest.raises(OSError):
        for _ in range(40):
            connection.sendall(b"a")
            time.sleep(0.05)


def test_unfinished_headers_of_a_second_request_time_out(address):
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(HEAD + b"\r\n")
        received = b""
        while b"]" not in received:
            received += connection.recv(65536)
        time.sleep(0.7)  # longer than a head may take: nothing is late before its first byte
        connection.sendall(HEAD)
        assert is_dropped(connection)


def test_an_active_connection_stays_open(address):
    connection = http.client.HTTPConnection(*address, timeout=5)
    for _ in range(4):
        connection.request("GET", "/v1/models/half_plus_two")
        assert connection.getresponse().read()
        time.sleep(0.3)
    connection.close()


@pytest.mark.parametrize("verb", ["GET", "PUT"])
def test_an_unfinished_body_of_a_rejected_request_times_out(address, verb):
    head = HEAD.replace(b"GET", verb.encode()) + b"Content-Length: 1000000\r\n\r\n"
    with socket.create_connection(address, timeout=5) as connection, pytest.raises(OSError):
        connection.sendall(head)
        for _ in range(60):
            connection.sendall(b"a")
            time.sleep(0.05)


def test_a_complete_body_of_a_rejected_request_keeps_the_connection(address):
    connection = http.client.HTTPConnection(*address, timeout=5)
    for _ in range(2):
        connection.request("GET", "/v1/models/half_plus_two", body=b"x" * 100_000)
        assert connection.getresponse().read()
        time.sleep(0.3)
    connection.close()


def test_an_unread_response_closes_the_connection(address):
    with asked_for(address, 100_000) as connection:
        time.sleep(4)
        assert len(all_that_comes(connection)) < 250_000


@pytest.mark.slow
def test_a_response_that_is_read_slowly(address):
    with asked_for(address, 1_500_000) as connection:  # more than the kernel keeps
        for _ in range(25):
            connection.recv(4096)
            time.sleep(0.1)
        assert len(all_that_comes(connection)) < 6_000_000


def asked_for(address, num_values):
    """A connection that has requested a list of `num_values` values of 5 bytes each."""
    body = json.dumps({"inputs": [[1.0] * num_values]})
    head = (
        f"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}"
    )
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect(address)
    connection.sendall(f"{head}\r\n\r\n{body}".encode())
    return connection


def all_that_comes(connection):
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def is_dropped(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
