"""The server starts with one clear sentence or not at all, and stays up whatever it is sent."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.server import running_server, serve

BODIES = [
    b'{"instances": [1.0]}',
    b'{"instances": [1.0',
    b'{"instances": ["x"]}',
    b'{"instances": [' + b"[" * 5000,
    b'{"instances": ' + b"[" * 700 + b"]" * 700 + b"}",
    b'{"inputs": ' + b"[" * 80 + b"1" + b"]" * 80 + b"}",
    bytes(range(256)),
    b'{"instances": [1], "signature_name": "no\xff"}',
    b'{"inputs": [' + b"1," * 20000 + b"1]}",
    b"\0",
]


def test_200_concurrent_requests_of_all_kinds(server_of, send):
    url, path = server_of("half_plus_two"), "/v1/models/half_plus_two:predict"
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: send(url, "POST", path, BODIES[n % 10]), range(200)))
    expected = [200 if n % 10 in (0, 8) else 400 for n in range(200)]
    assert [answer.status for answer in answers] == expected
    assert all("error" in answer.json for answer in answers if answer.status == 400)
    assert send(url, "POST", path, BODIES[0]).json == {"predictions": [2.5]}


def test_what_is_no_http_does_not_stop_it(server_of, send):
    url = server_of("half_plus_two")
    address = (urlsplit(url).hostname, urlsplit(url).port)
    head = b"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: a\r\n"
    for sent in (b"\x16\x03\x01 no http\r\n\r\n", head + b"Content-Length: 99\r\n\r\n{", b"GET"):
        with socket.create_connection(address) as connection:
            connection.sendall(sent)
    assert send(url, "GET", "/v1/models/half_plus_two").status == 200


def test_a_real_socket_by_hand(server_of):
    request = urllib.request.Request(
        f"{server_of('texty')}/v1/models/texty:predict", data=b'{"instances": ["hello"]}'
    )
    with urllib.request.urlopen(request) as response:
        assert response.status == 200
        assert b'"input_ids": [4, 0, 0, 0, 0, 0, 0, 0]' in response.read()


def test_it_stops_cleanly_and_gives_the_port_back(models):
    threads = threading.active_count()
    with running_server(models / "half_plus_two") as url:
        port = urlsplit(url).port
        with pytest.raises(InputError, match=f"port {port} on 127.0.0.1 is in use"):
            serve(models / "half_plus_two", port=port)
    assert threading.active_count() <= threads + 1  # a worker of the thread pool may still idle
    with running_server(models / "half_plus_two", port=port) as url:
        assert urlsplit(url).port == port


def test_ctrl_c_stops_it_quietly(models):
    code = (
        "import sys; from bert_keras.serving.server import serve; "
        f"serve({str(models / 'half_plus_two')!r}, port=0); print('stopped')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    with contextlib.closing(process.stdout), contextlib.closing(process.stderr):
        line = process.stdout.readline()
        url = line.split()[1].removesuffix(":predict")
        assert urllib.request.urlopen(url).status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        assert process.stdout.read() == "stopped\n"
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("port", "sentence"),
    [(70000, "port 70000 does not exist"), (-1, "port -1 does not exist")],
)
def test_ports_that_do_not_exist(models, port, sentence):
    with pytest.raises(InputError, match=sentence):
        serve(models / "half_plus_two", port=port)


def test_a_port_that_is_not_permitted(models, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(InputError, match="port 80 is not permitted for this user; choose"):
        serve(models / "half_plus_two", port=80)


def test_a_host_that_is_not_this_machine(models):
    with pytest.raises(InputError, match=r"cannot listen on 192\.0\.2\.1, port 0: "):
        serve(models / "half_plus_two", port=0, host="192.0.2.1")


def test_answers_on_an_open_connection_do_not_wait_for_acknowledgements(server_of):
    connection = http.client.HTTPConnection(urlsplit(server_of("half_plus_two")).netloc)
    seconds = []
    with contextlib.closing(connection):
        for _ in range(20):
            start = time.perf_counter()
            connection.request("POST", "/v1/models/half_plus_two:predict", BODIES[0])
            connection.getresponse().read()
            seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.03  # 0.04 and more when the kernel holds the second packet back
