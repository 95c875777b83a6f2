"""Malformed requests get a status and JSON of TF Serving and do not affect other clients."""

import contextlib
import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bert_keras.serving.server import running_server
from tests.serving.text_models import embedder

# 413 is for a text of 70,000 bytes; 408, 503 and 504 report limits that are not reached.
STATUSES = {200, 400, 404, 413}
FEW_OR_MANY = pytest.mark.parametrize(
    "num_examples",
    [pytest.param(40, id="few"), pytest.param(1200, id="many", marks=pytest.mark.slow)],
)

NAMES = ["sentences", "a", "b", "s", "v", "image_bytes", "x", "b64", ""]
SIGNATURES = ["serving_default", "multi", "agg", "scalar", "special", "bytes", "regress_x_to_y",
              "classify_x_to_y", "classify_x2_to_y3", "__saved_model_init_op", "nope"]  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 1e39]),
)
TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["hello", "a" * 70_000, "\0", "\ud83d\ude00"])
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, TEXTS.map(lambda text: {"b64": text}))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=12,
)
TENSORS = st.tuples(
    SCALARS, st.lists(st.integers(0, 3) | st.just(1), max_size=5) | st.just([1] * 80)
).map(lambda parts: filled(*parts))
INPUTS = st.one_of(VALUES, TENSORS, st.dictionaries(st.sampled_from(NAMES), TENSORS, max_size=3))
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "signature_name": st.one_of(*[st.sampled_from(SIGNATURES)] * 9, VALUES),
        "instances": INPUTS | st.lists(INPUTS, max_size=3),
        "inputs": INPUTS,
    },
)


def filled(scalar, shape):
    for size in shape:
        scalar = [scalar] * size
    return scalar


@st.composite
def bodies(draw, documents=DOCUMENTS):
    """A JSON document, often with bytes removed, inserted or repeated."""
    document = draw(documents)
    body = json.dumps(document, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    kind = draw(st.sampled_from(["whole", "whole", "cut", "put", "double", "raw", "deep"]))
    at = draw(st.integers(0, len(body)))
    if kind == "cut":
        return body[:at]
    if kind == "put":
        return body[:at] + draw(st.binary(min_size=1, max_size=8)) + body[at:]
    if kind == "double":  # equal keys
        return b'{"inputs": 1, ' + body[1:] if len(body) > 2 else body
    if kind == "raw":
        return draw(st.binary(max_size=200))
    if kind == "deep":
        return b'{"inputs": ' + draw(st.sampled_from([b"[", b'{"a":'])) * draw(
            st.integers(0, 50_000)
        )
    return body


def fuzzed(num_examples, **strategies):
    """A decorator that calls its function with `num_examples` reproducible examples."""

    def run(function):
        chosen = settings(
            max_examples=num_examples,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        chosen(given(**strategies)(function))()

    return run


def check(response, path="/v1/", body=b""):
    assert response.status in STATUSES, (response, path[:500], body[:2000])
    if response.headers["Content-Type"].startswith("text/html"):
        assert (response.status, path.startswith("/v1/")) == (404, False)
    elif response.status == 200:
        assert len(response.json) in (1, 2)
    else:
        assert [type(value) for value in response.json.values()] == [str]
        assert list(response.json) == ["error"]


def check_control(server_of, send):
    body = '{"signature_name": "bytes", "instances": ["control"]}'
    response = send(server_of("texty"), "POST", "/v1/models/texty:predict", body)
    assert response.status == 200, response
    assert response.json["predictions"][0]["out"] == "CONTROL"


@FEW_OR_MANY
def test_bodies(server_of, send, num_examples):
    @fuzzed(
        num_examples,
        call=st.sampled_from(
            ["texty:predict"] * 3
            + ["keras_tiny:predict", "odd:predict"]
            + ["half_plus_two:predict"]
        ),
        body=bodies(),
    )
    def send_request(call, body):
        model = call.partition(":")[0]
        path = f"/v1/models/{call}"
        check(send(server_of(model), "POST", path, body), path, body)
        check_control(server_of, send)


EMBEDDINGS = st.fixed_dictionaries(
    {"model": st.sampled_from(["letters"] * 8 + ["gpt"]) | VALUES},
    optional={
        "input": TEXTS | st.lists(TEXTS, max_size=3) | VALUES,
        "dimensions": st.integers(-1, 5) | VALUES,
        "encoding_format": st.sampled_from(["float", "base64"]) | VALUES,
        "user": VALUES,
    },
)


@FEW_OR_MANY
def test_bodies_of_the_embeddings_api(tmp_path, send, num_examples):
    embedder(tmp_path / "letters" / "1")

    def send_request(body):
        response = send(url, "POST", "/v1/embeddings", body)
        if response.status != 200:
            assert response.status in (400, 404), (response, body[:2000])
            assert response.json["error"].keys() == {"message", "type", "param", "code"}

    with running_server(tmp_path / "letters") as url:
        fuzzed(num_examples, body=bodies(EMBEDDINGS))(send_request)
        valid = '{"model": "letters", "input": "a"}'
        assert send(url, "POST", "/v1/embeddings", valid).status == 200


PIECES = st.one_of(
    st.sampled_from(
        ["/", "/v1", "/models", "/texty", "/half_plus_two", ":predict", ":classify", "/metadata",
         "/versions/", "/labels/", "1", "123", "9" * 30, "9" * 5000, "..", "%2e%2e%2f", "%00", "%",
         "%ff", "?", "#", "//", "\\", "/etc/passwd", "a" * 20_000, "/1/saved_model.pb"]
    ),
    st.text(max_size=8).map(quote),
)  # fmt: skip
PATHS = st.one_of(
    st.lists(PIECES, max_size=6).map("".join),
    st.lists(PIECES, max_size=4).map(lambda tokens: "/v1/models/texty" + "".join(tokens)),
)
LONGEST_LINE = 65_000  # bytes, of the 64 KiB that uvicorn reads before it refuses a request
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "A" * 500]


@FEW_OR_MANY
def test_paths_and_methods(server_of, send, num_examples):
    """No path gives access to a file, only to the status, metadata or predictions of a model."""

    @fuzzed(num_examples, method=st.sampled_from(METHODS), path=PATHS)
    def send_request(method, path):
        path = f"/{path}"
        try:
            response = send(server_of("texty"), method, path, b"{}")
        except ConnectionResetError:  # the server does not read longer request lines to their end
            assert len(method + path) > LONGEST_LINE
        else:
            check(response, path)
            if response.status == 200:
                assert response.json.keys() & {"model_version_status", "model_spec"}
        check_control(server_of, send)


BODY = b'{"signature_name": "bytes", "instances": ["x"]}'
HEADERS = st.one_of(
    st.sampled_from(
        [b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: 99999999999999999999",
         b"Content-Length: -1", b"Content-Length: 5, 6", b"Transfer-Encoding: chunked",
         b"Transfer-Encoding: gzip, chunked", b"Content-Encoding: gzip", b"Expect: 100-continue",
         b"Connection: close", b"Connection: upgrade\r\nUpgrade: websocket", b"Host: a", b" folded",
         b"X: " + b"a" * 70_000, b"Accept: text/html", b"Content-Length: %d" % len(BODY)]
    ),
    st.binary(max_size=20),
)  # fmt: skip
CHUNKS = st.lists(
    st.sampled_from([b"5\r\n{\"a\":\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"x",
                     b"2;ext=1\r\n{}\r\n", BODY])
).map(b"".join)  # fmt: skip


@FEW_OR_MANY
def test_invalid_headers_and_disconnecting_clients(server_of, send, num_examples):
    """A client sends any bytes and disconnects at any byte, or first waits for a response."""
    url = server_of("texty")
    address = urlsplit(url).hostname, urlsplit(url).port

    @fuzzed(
        num_examples,
        first=st.sampled_from([b"POST /v1/models/texty:predict HTTP/1.1", b"GET / HTTP/1.0",
                               b"GET /v1/models/texty HTTP/1.1", b"CONNECT a:1 HTTP/1.1",
                               b"HEAD /v1/models/texty HTTP/1.1", b"POST * HTTP/9.9", b"\x16\x03"]),
        headers=st.lists(HEADERS, max_size=4),
        rest=st.one_of(st.just(BODY), CHUNKS, st.binary(max_size=50)),
        kept=st.floats(0, 1) | st.just(1.0),
        stays=st.booleans(),
    )  # fmt: skip
    def send_request(first, headers, rest, kept, stays):
        sent = b"\r\n".join([first, b"Host: a", *headers, b"", rest])
        response = b""
        connection = socket.create_connection(address, timeout=0.05)
        with connection, contextlib.suppress(OSError):
            connection.sendall(sent[: round(kept * len(sent))])
            if stays:
                response = connection.recv(65536)
        if response:
            status = int(response.removeprefix(b"HTTP/1.1 ")[:3])
            assert status in {*STATUSES, 100, 413}, response
        check_control(server_of, send)


@pytest.mark.parametrize(
    "num_requests",
    [pytest.param(200, id="few"), pytest.param(4000, id="many", marks=pytest.mark.slow)],
)
def test_each_client_gets_its_own_response_among_bad_clients(server_of, send, num_requests):
    url, path = server_of("texty"), "/v1/models/texty:predict"
    address = urlsplit(url).hostname, urlsplit(url).port
    chosen = random.Random(7)
    words = ["".join(chosen.choices("abcdefgh \u00e9\u4e2d", k=chosen.randint(0, 90)))
             for _ in range(num_requests)]  # fmt: skip

    def send_request(number):
        texts = [f"{number} {words[number]}", words[-number]]
        body = {"signature_name": "bytes", "instances": texts}
        kind = number % 8
        if kind == 0:  # a client that disconnects before the response
            sent = json.dumps(body).encode()
            head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(sent)}\r\n\r\n"
            with socket.create_connection(address) as connection:
                connection.sendall(head.encode() + sent)
            return
        if kind == 1:  # one that is refused
            body = {"signature_name": "bytes", "inputs": [{"b": texts[0]}]}
        response = send(url, "POST", path, json.dumps(body))
        if kind == 1:
            assert response.status == 400
            assert f'"{texts[0]}"' in response.json["error"]
        else:
            rows = [row["out"].encode() for row in response.json["predictions"]]
            assert rows == [text.encode().upper() for text in texts]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send_request, range(num_requests)))
