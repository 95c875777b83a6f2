"""Starts a server and measures the latency of the requests of several clients."""

import contextlib
import http.client
import itertools
import json
import random
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

PATIENCE = 120  # seconds; timeout of a request
MAX_OPEN = 256  # requests of the open loop at the same time; later ones wait for a connection


@dataclass
class Latencies:
    """The latency of each successful request and the number of failed ones, within `seconds`."""

    times: list[float] = field(default_factory=list)
    errors: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def milliseconds(self, percent: int) -> float:
        return 1000 * float(np.percentile(self.times, percent)) if self.times else float("nan")

    @contextlib.contextmanager
    def request(self, connection: http.client.HTTPConnection, *, start: float):
        """Adds the seconds since `start` after a successful request, or an error."""
        try:
            yield
            self.times.append(time.perf_counter() - start)
        except (OSError, http.client.HTTPException) as error:
            self.errors += 1
            print(f"{type(error).__name__}: {error}", flush=True)
            connection.close()  # the next request opens it again


class Server:
    """A process that prints its URL when it is ready."""

    def __init__(self, command: Sequence[str]):
        self._start = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)}: the process ended before it printed its URL")
        self.url = line.split()[1]
        self._parts = urlsplit(self.url)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    @property
    def age(self) -> float:
        """Returns the seconds since the start of the process."""
        return time.perf_counter() - self._start

    def memory(self) -> float:
        """Returns the resident memory in MiB."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._parts.netloc, timeout=PATIENCE)

    def send(self, connection: http.client.HTTPConnection, text: str) -> float:
        """Sends a text and returns the latency in seconds; raises OSError if the request fails."""
        body = json.dumps({"instances": [text]}).encode()
        start = time.perf_counter()
        connection.request("POST", self._parts.path, body)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise OSError(f"{response.status}: {content[:200]}")
        return time.perf_counter() - start


def closed_loop(
    server: Server, texts: Sequence[str], *, num_clients: int, seconds: float
) -> Latencies:
    """Runs clients with one connection each that send a request after each response."""
    latencies = Latencies()
    counter = itertools.count()
    start = time.perf_counter()

    def run_client() -> None:
        with contextlib.closing(server.connection()) as connection:
            while time.perf_counter() < start + seconds:
                with latencies.request(connection, start=time.perf_counter()):
                    server.send(connection, texts[next(counter) % len(texts)])

    clients = [threading.Thread(target=run_client) for _ in range(num_clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    latencies.seconds = time.perf_counter() - start
    return latencies


def open_loop(
    server: Server, texts: Sequence[str], *, rate: float, seconds: float, seed: int
) -> Latencies:
    """Sends requests at random times, `rate` a second on average, each on its own connection.

    The times are a Poisson process and do not depend on the responses. A latency counts from the
    planned time of the request, so that it includes the time that the client is late.
    """
    latencies, generator = Latencies(), random.Random(seed)

    def send(text: str, planned: float) -> None:
        connection = server.connection()
        with contextlib.closing(connection), latencies.request(connection, start=planned):
            server.send(connection, text)

    start = planned = time.perf_counter()
    with ThreadPoolExecutor(MAX_OPEN) as pool:
        while (planned := planned + generator.expovariate(rate)) < start + seconds:
            time.sleep(max(0.0, planned - time.perf_counter()))
            pool.submit(send, generator.choice(texts), planned)
    latencies.seconds = time.perf_counter() - start
    return latencies
