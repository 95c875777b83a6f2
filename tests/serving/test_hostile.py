"""Too large, too slow, too many and malformed requests are refused and do not affect others."""

import gzip
import json
import random
import re
import resource
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bert_keras.serving.limits import Limits
from bert_keras.serving.server import running_server
from tests.factories import wait_for
from tests.serving.conftest import served_by_command

ODD = "/v1/models/odd:predict"
PATH = "/v1/models/half_plus_two:predict"
ONE = b'{"instances": [1.0]}'


@pytest.fixture(scope="module")
def limited(models):
    """The URL of a server with low limits for bodies."""
    limits = Limits(max_body_bytes=1000, max_total_bytes=1500, max_requests=3, idle_seconds=1)
    with running_server(models / "half_plus_two", limits=limits) as url:
        yield url


def test_a_too_large_body_is_refused(limited, send):
    zipped = gzip.compress(b"0" * 300_000)
    for body, headers in (ONE + b" " * 1000, {}), (zipped, {"Content-Encoding": "gzip"}):
        assert send(limited, "POST", PATH, body, headers).status_code == 413


def connected(url):
    return socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=10)


def begun(url, body=b"", *, path=PATH, size=999):
    """A connection that has sent the start of a request with a body of `size` bytes."""
    connection = connected(url)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def received(connection):
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536) or b"}"
    return answer.decode()


def test_slow_bodies_time_out_while_other_requests_are_served(limited, send):
    slow = [begun(limited, b"{") for _ in range(9)]
    assert send(limited, "POST", PATH, ONE).status_code == 200
    for connection in slow:
        with connection:
            assert received(connection).startswith("HTTP/1.1 408 ")


GET = b"GET /monitoring/prometheus/metrics HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", GET[:9], GET, GET * 1000])
def test_clients_that_finish_no_request_or_take_no_response_are_disconnected(limited, sent):
    with connected(limited) as connection:
        connection.sendall(sent)
        with pytest.raises(ConnectionError):
            wait_for(lambda: connection.send(b"G") == 0, seconds=5)


@pytest.mark.parametrize("line", ["GET /", "HEAD /", f"POST {PATH}", "CONNECT /healthz"])
def test_chunks_that_are_none_leave_no_traceback(limited, send, caplog, line):
    head = f"{line} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    for parts in [f"{head}ZZ\r\n"], [head, "ZZ\r\n"]:
        with connected(limited) as connection:
            for part in parts:
                connection.sendall(part.encode())
                time.sleep(0.1)
    assert send(limited, "POST", PATH, ONE).status_code == 200
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.slow
def test_idle_connections_use_up_neither_the_descriptors_nor_the_log(models, send):
    with served_by_command(models / "half_plus_two") as (process, url):
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (100, 100))
        idle, start = [connected(url) for _ in range(200)], time.monotonic()
        assert send(url, "POST", PATH, ONE).status_code == 200
        assert len(idle) == 200 and time.monotonic() - start < 5
        process.terminate()
        assert len(process.stderr.read()) < 2000


def test_too_many_bytes_are_refused(limited, send):
    def status(body=ONE):
        return send(limited, "POST", PATH, body).status_code

    # A body that arrives after a large one is refused, not the large one.
    large, waiting = ONE + b" " * 900, []
    wait_for(lambda: waiting.append(begun(limited, b" " * 900)) or status(large) == 503)
    assert status() == 200
    for connection in waiting:
        connection.close()
    wait_for(lambda: status(large) == 200)


@pytest.fixture(scope="module")
def second(models):
    """The URL of a server for 12 requests at a time, which may take a second."""
    with running_server(models / "odd", limits=Limits(seconds=1, max_requests=12)) as url:
        yield url


def slow_body(n, *, name="slow"):
    return json.dumps({"signature_name": name, "instances": [n]}).encode()


def test_a_client_that_closes_its_sending_side_gets_its_response(second):
    body = slow_body(3)
    with begun(second, body, path=ODD, size=len(body)) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).endswith('{"predictions": [3]}')
        assert not connection.recv(1)  # the server closes its side after the response


def test_slow_requests_end_and_delay_others_only_until_then(second, send):
    start = time.monotonic()
    assert send(second, "POST", ODD, slow_body(2**31 - 1)).status_code == 504
    endless = slow_body(1, name="stuck")
    for _ in range(10):  # clients that disconnect
        begun(second, endless, path=ODD, size=len(endless)).close()
    wait_for(lambda: send(second, "POST", ODD, slow_body(3)).status_code == 200)
    assert time.monotonic() - start < 6


def test_too_many_requests_are_refused(second, send):
    endless = slow_body(1, name="stuck")
    running = [begun(second, endless, path=ODD, size=len(endless)) for _ in range(13)]
    assert send(second, "GET", "/v1/models/odd").status_code == 200
    assert "503" in [received(connection)[9:12] for connection in running]


def test_an_op_whose_message_is_not_utf8(server_of, send):
    body = b'{"signature_name": "number", "instances": [{"b64": "bv8="}]}'
    response = send(server_of("odd"), "POST", ODD, body)
    assert response.status_code == 400 and "n\ufffd" in response.json()["error"]


@pytest.mark.slow
def test_concurrent_requests_get_their_own_predictions_or_errors(server_of, send):
    """The rows of `bytes` share runs; those of `centred` depend on each other and must not."""

    def send_request(number):
        name = ("strict", "centred", "bytes")[number % 3]
        model = "texty" if name == "bytes" else "odd"
        rows = [f"a{number}", "b"] if name == "bytes" else [number - 50, number - 49]
        body = json.dumps({"signature_name": name, "instances": rows})
        return send(server_of(model), "POST", f"/v1/models/{model}:predict", body).json()

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(send_request, range(300)))
    for number in range(0, 300, 3):
        strict, centred, of_bytes = answers[number : number + 3]
        assert [row["out"] for row in of_bytes["predictions"]] == [f"A{number + 2}", "B"]
        assert centred["predictions"] == [-0.5, 0.5]
        if number < 50:
            assert "negative" in strict["error"]
        else:
            assert strict["predictions"] == [2 * number - 100, 2 * number - 98]


VALUES = (
    *(None, True, -1, 2**64, 1e39, "", "hello", "a" * 70_000, "\0\ud83d\ude00", [], {}),
    *({"b64": "YQ=="}, {"b64": "?"}, {"sentences": "a"}, [["a"]], [1, "a"], {"texts": ["a"]}),
)


def random_body(random):
    """A request that may be valid, with bytes that are cut, inserted or changed."""
    key = random.choice(["instances", "instances", "inputs", "signature_name", "model", "input"])
    values = [random.choice(VALUES) for _ in range(random.randint(0, 3))]
    document = {key: random.choice([values, values, *values]), **random.choice([{}, {"a": 1}])}
    if random.random() < 0.4:
        document = {"instances": random.choices(["hello world", "", "a" * 999], k=3)}
    data = json.dumps(document).encode()
    at, deep = random.randrange(len(data)), random.choice([b"[", b'{"a":'])
    inserted = data[:at] + random.randbytes(4) + data[at:]
    return random.choice([data[:at], inserted, deep * random.randrange(50_000), *5 * [data]])


@pytest.mark.slow
def test_random_requests_neither_change_other_answers_nor_fill_the_memory(models, send):
    texty, statuses = "/v1/models/texty", Counter()

    def answer(data=b'{"instances": ["hello world"]}', path=f"{texty}:predict", headers=None):
        return send(url, "POST", path, data, headers)

    def send_random(first):
        for number in range(first, first + 500):
            generator, headers = random.Random(number), None
            data = random_body(generator)
            if generator.random() < 0.2:
                data, headers = gzip.compress(data), {"Content-Encoding": "gzip"}
            paths = [*3 * [f"{texty}:predict"], f"{texty}:predic", f"{texty}/versions/9:predict"]
            path = generator.choice([*paths, "/v1/embeddings"])
            statuses[answer(data, path, headers).status_code] += 1
            assert answer().content == expected

    def memory():  # in kB
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    with served_by_command(models / "texty") as (process, url), ThreadPoolExecutor(4) as pool:
        expected = answer().content
        send_random(0)
        start = memory()
        list(pool.map(send_random, range(0, 2000, 500)))
        assert memory() < 1.1 * start
    assert max(statuses) < 500 and statuses[200] > 250
