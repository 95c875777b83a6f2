"""Starts a server and measures the latency of the requests of several clients."""

import contextlib
import http.client
import itertools
import json
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 120  # seconds; timeout of a request


@dataclass
class Answers:
    """The latency of each successful request and the number of failed ones, within `seconds`."""

    times: list[float] = field(default_factory=list)
    errors: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def milliseconds(self, percent: int) -> float:
        return 1000 * statistics.quantiles(self.times, n=100, method="inclusive")[percent - 1]


class Server:
    """A process that prints its URL when it is ready."""

    def __init__(self, command: Sequence[str]):
        self._begin = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)}: ended before it answered")
        self._url = urlsplit(line.split()[1])

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    @property
    def age(self) -> float:
        """Returns the seconds since the start of the process."""
        return time.perf_counter() - self._begin

    def memory(self) -> float:
        """Returns the resident memory in MiB."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._url.netloc, timeout=PATIENCE)

    def asked(self, connection: http.client.HTTPConnection, text: str) -> float:
        """Sends a text and returns the latency in seconds; raises OSError if the request fails."""
        body = json.dumps({"instances": [text]}).encode()
        begin = time.perf_counter()
        connection.request("POST", self._url.path, body)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise OSError(f"{response.status}: {content[:200]}")
        return time.perf_counter() - begin


def closed_loop(
    server: Server, texts: Sequence[str], *, num_clients: int, seconds: float
) -> Answers:
    """Runs clients with one connection each that send a request after each response."""
    answers = Answers()
    numbers = itertools.count()
    begin = time.perf_counter()

    def ask() -> None:
        with contextlib.closing(server.connection()) as connection:
            while time.perf_counter() < begin + seconds:
                try:
                    text = texts[next(numbers) % len(texts)]
                    answers.times.append(server.asked(connection, text))
                except (OSError, http.client.HTTPException) as error:
                    answers.errors += 1
                    print(f"{type(error).__name__}: {error}", flush=True)
                    connection.close()  # the next request opens it again

    clients = [threading.Thread(target=ask) for _ in range(num_clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    answers.seconds = time.perf_counter() - begin
    return answers
