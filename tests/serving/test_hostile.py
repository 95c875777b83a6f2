"""Malformed requests get a status and JSON of TF Serving and do not affect other clients."""

import contextlib
import json
import socket
from urllib.parse import urlsplit

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bert_keras.serving.server import running_server
from tests.serving.conftest import embedder

# 413 is for a text of 70,000 bytes; 408, 503 and 504 report limits that are not reached.
STATUSES = {200, 400, 404, 413}
FEW_OR_MANY = pytest.mark.parametrize(
    "num_examples",
    [pytest.param(40, id="few"), pytest.param(1200, id="many", marks=pytest.mark.slow)],
)

NAMES = st.sampled_from(["sentences", "a", "b", "s", "v", "image_bytes", "x", "b64", ""])
SIGNATURES = ["serving_default", "multi", "agg", "scalar", "special", "bytes", "nope", "strict",
              "classify_x_to_y", "classify_x2_to_y3", "__saved_model_init_op"]  # fmt: skip
NUMBERS = st.integers(-(2**70), 2**70) | st.floats() | st.sampled_from([0, 1, 2**31, 2**64, 1e39])
TEXTS = st.text(max_size=20) | st.sampled_from(["hello", "a" * 70_000, "\0", "\ud83d\ude00"])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS | TEXTS.map(lambda text: {"b64": text})
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@st.composite
def tensors(draw):
    value = draw(SCALARS)
    for size in draw(st.lists(st.integers(0, 3), max_size=5) | st.just([1] * 80)):
        value = [value] * size
    return value


INPUTS = VALUES | tensors() | st.dictionaries(NAMES, tensors(), max_size=3)
PREDICT = st.fixed_dictionaries(
    {},
    optional={
        "signature_name": st.one_of(*[st.sampled_from(SIGNATURES)] * 9, VALUES),
        "instances": INPUTS | st.lists(INPUTS, max_size=3),
        "inputs": INPUTS,
    },
)
EMBEDDINGS = st.fixed_dictionaries(
    {"model": st.sampled_from(["letters"] * 8 + ["gpt"]) | VALUES},
    optional={
        "input": TEXTS | st.lists(TEXTS, max_size=3) | VALUES,
        "dimensions": st.integers(-1, 5) | VALUES,
        "encoding_format": st.sampled_from(["float", "base64"]) | VALUES,
    },
)


@st.composite
def bodies(draw, documents):
    """A JSON document, often with bytes removed or inserted."""
    body = json.dumps(draw(documents), ensure_ascii=draw(st.booleans()))
    body, at = body.encode("utf-8", "surrogatepass"), draw(st.integers(0, len(body)))
    kind = draw(st.sampled_from(["whole", "whole", "cut", "put", "raw", "deep"]))
    deep = draw(st.sampled_from([b"[", b'{"a":'])) * draw(st.integers(0, 50_000))
    return {
        "whole": body,
        "cut": body[:at],
        "put": body[:at] + draw(st.binary(min_size=1, max_size=8)) + body[at:],
        "raw": draw(st.binary(max_size=200)),
        "deep": b'{"inputs": ' + deep,
    }[kind]


def fuzz(num_examples, send_request, **strategies):
    """Calls a function with `num_examples` reproducible examples."""
    chosen = {"derandomize": True, "deadline": None, "database": None}
    chosen["suppress_health_check"] = list(HealthCheck)
    settings(max_examples=num_examples, **chosen)(given(**strategies)(send_request))()


def check_control(server_of, send):
    body = '{"signature_name": "bytes", "instances": ["control"]}'
    response = send(server_of("texty"), "POST", "/v1/models/texty:predict", body)
    assert response.json["predictions"][0]["out"] == "CONTROL"


@FEW_OR_MANY
def test_bodies(server_of, send, num_examples):
    def send_request(model, body):
        response = send(server_of(model), "POST", f"/v1/models/{model}:predict", body)
        assert response.status in STATUSES, (response, body[:2000])
        if response.status != 200:
            assert isinstance(response.json["error"], str)
        check_control(server_of, send)

    models = st.sampled_from(["texty"] * 3 + ["keras_tiny", "odd", "half_plus_two"])
    fuzz(num_examples, send_request, model=models, body=bodies(PREDICT))


@FEW_OR_MANY
def test_bodies_of_the_embeddings_api(tmp_path, send, num_examples):
    embedder(tmp_path / "letters" / "1")

    def send_request(body):
        response = send(url, "POST", "/v1/embeddings", body)
        assert response.status in STATUSES, (response, body[:2000])
        if response.status != 200:
            assert response.json["error"].keys() == {"message", "type", "param", "code"}

    with running_server(tmp_path / "letters") as url:
        fuzz(num_examples, send_request, body=bodies(EMBEDDINGS))
        valid = '{"model": "letters", "input": "a"}'
        assert send(url, "POST", "/v1/embeddings", valid).status == 200


BODY = b'{"signature_name": "bytes", "instances": ["x"]}'
FIRST_LINES = [b"POST /v1/models/texty:predict HTTP/1.1", b"GET / HTTP/1.0", b"\x16\x03",
               b"GET /v1/models/texty HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"POST * HTTP/9.9",
               b"HEAD /v1/models/texty HTTP/1.1"]  # fmt: skip
HEADERS = st.binary(max_size=20) | st.sampled_from(
    [b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: 99999999999999999999",
     b"Content-Length: -1", b"Content-Length: 5, 6", b"Transfer-Encoding: chunked",
     b"Transfer-Encoding: gzip, chunked", b"Content-Encoding: gzip", b"Expect: 100-continue",
     b"Connection: close", b"Connection: upgrade\r\nUpgrade: websocket", b"Host: a", b" folded",
     b"X: " + b"a" * 70_000, b"Accept: text/html", b"Content-Length: %d" % len(BODY)]
)  # fmt: skip
CHUNKS = [b"5\r\n{\"a\":\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"x",
          b"2;ext=1\r\n{}\r\n", BODY]  # fmt: skip


@FEW_OR_MANY
def test_invalid_headers_and_disconnecting_clients(server_of, send, num_examples):
    """A client sends any bytes and disconnects at any byte, or first waits for a response."""
    url = urlsplit(server_of("texty"))

    def send_request(first, headers, rest, kept, stays):
        sent = b"\r\n".join([first, b"Host: a", *headers, b"", rest])
        response = b""
        connection = socket.create_connection((url.hostname, url.port), timeout=0.05)
        with connection, contextlib.suppress(OSError):
            connection.sendall(sent[: round(kept * len(sent))])
            if stays:
                response = connection.recv(65536)
        if response:
            assert int(response.removeprefix(b"HTTP/1.1 ")[:3]) in {*STATUSES, 100}, response
        check_control(server_of, send)

    chunks = st.lists(st.sampled_from(CHUNKS)).map(b"".join)
    fuzz(
        num_examples,
        send_request,
        first=st.sampled_from(FIRST_LINES),
        headers=st.lists(HEADERS, max_size=4),
        rest=st.just(BODY) | chunks | st.binary(max_size=50),
        kept=st.floats(0, 1) | st.just(1.0),
        stays=st.booleans(),
    )
