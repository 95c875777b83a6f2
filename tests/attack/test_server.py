"""Random requests neither disturb the answers to others nor fill the memory of the server."""

import gzip
import json
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.slow
URL = "/v1/models/name"
CONTROL = b'{"instances": ["the river was good ."]}'
VALUES = (
    *(None, True, -1, 2**64, 1e39, "", "good film", "a" * 70_000, "\0\ud83d\ude00", [], {}),
    *({"b64": "YQ=="}, {"b64": "?"}, {"text": "good"}, [["good"]], [1, "good"], {"texts": ["a"]}),
)


def body(random: random.Random) -> bytes:
    """Returns a request that may be valid, with bytes that are cut, inserted or changed."""
    key = random.choice(["instances", "instances", "inputs", "signature_name", "model", "input"])
    values = [random.choice(VALUES) for _ in range(random.randint(0, 3))]
    document = {key: random.choice([values, values, *values]), **random.choice([{}, {"a": 1}])}
    if random.random() < 0.4:
        document = {"instances": random.choices(["good film", "bank", "", "a" * 999], k=3)}
    data = json.dumps(document).encode()
    at, deep = random.randrange(len(data)), random.choice([b"[", b'{"a":'])
    inserted = data[:at] + random.randbytes(4) + data[at:]
    return random.choice([data[:at], inserted, deep * random.randrange(50_000), *5 * [data]])


def memory(process: subprocess.Popen) -> int:
    """Returns the resident memory of a process in kB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


@pytest.fixture(scope="module")
def server(folders, attack_keras):
    """A process that serves a classifier of texts, and its URL."""
    line = "bert-keras export classifier name --output . --serving-config config"
    assert attack_keras(line, folders).code == 0
    assert "source: ../name" in (folders / "config" / "compose.yaml").read_text().replace('"', "")
    command = [sys.executable, "-m", "bert_keras.cli", "serve", "name", "--port", "0"]
    with subprocess.Popen(command, cwd=folders, stdout=subprocess.PIPE, text=True) as process:
        yield process, re.search(r"http://[\d.:]+", process.stdout.readline())[0]
        process.terminate()


@pytest.fixture(scope="module")
def send(server):
    """A function that sends a body and returns the response."""
    with httpx.Client(timeout=60) as client:
        yield lambda content, path=f"{URL}:predict", **headers: client.post(
            server[1] + path, content=content, headers=headers
        )


def test_random_requests_do_not_change_the_answers_to_others(send):
    generator, statuses = random.Random(1), Counter()
    expected = send(CONTROL).content
    for _ in range(500):
        data, headers = body(generator), {}
        if generator.random() < 0.2:
            data, headers = gzip.compress(data), {"Content-Encoding": "gzip"}
        paths = [*3 * [f"{URL}:predict"], f"{URL}:predic", f"{URL}/versions/9:predict"]
        path = generator.choice([*paths, "/v1/embeddings"])
        statuses[send(data, path, **headers).status_code] += 1
        control = send(CONTROL)
        assert (control.status_code, control.content) == (200, expected)
    print(f"server: {dict(statuses)}")
    assert max(statuses) < 500 and statuses[200] > 50


def test_memory_after_many_requests(server, send):
    def send_requests(first: int) -> None:
        for number in range(first, first + 500):
            send(CONTROL if number % 4 else body(random.Random(number)))

    for first in (0, 500):
        send_requests(first)
    start = memory(server[0])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send_requests, range(0, 2000, 500)))
    end = memory(server[0])
    print(f"memory: {start:,} kB, after 2,000 requests {end:,} kB")
    assert end < 1.1 * start
