"""Counts a server's requests and runs, under TF Serving's names, for Prometheus."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import Metric

PAGE_PATH = "/monitoring/prometheus/metrics"

# tensorflow_serving/servables/tensorflow/util.cc: microseconds, to about 20 minutes.
_LATENCIES = [10 * 1.8**exponent for exponent in range(33)]
_BATCH_SIZES = [2**exponent for exponent in range(15)]
_PREFIX = ":tensorflow:serving:"
CODES = {
    200: "OK",
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Monitoring:
    """The counters of one server; safe to use from many threads.

    The name of a model that is not served never becomes a label: anyone could invent more.
    """

    def __init__(self, model_name: str):
        self._model_name = model_name
        self._statuses: Counter[tuple[str, str]] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        self._latency = histogram(
            f"{_PREFIX}request_latency",
            "Wall time of a request that was answered, in microseconds.",
            ["model_name", "API", "entrypoint"],
            buckets=_LATENCIES,
        )
        self._runtime = histogram(
            f"{_PREFIX}runtime_latency",
            "Wall time of a session run, in microseconds.",
            ["model_name", "API", "runtime"],
            buckets=_LATENCIES,
        )
        self._batch_size = histogram(
            f"{_PREFIX}batching_session:processed_batch_size",
            "Requests that shared a session run.",
            ["model_name"],
            buckets=_BATCH_SIZES,
        )

    def answered(self, model_name: str, *, api: str, status: int, seconds: float) -> None:
        """Count a request with the HTTP status and the time of its answer."""
        name = model_name if model_name == self._model_name else ""
        self._statuses[name, CODES.get(status, "UNKNOWN")] += 1
        if status == 200:
            self._latency.labels(name, api, "REST").observe(seconds * 1e6)

    def ran(self, *, seconds: float) -> None:
        """Count a session run."""
        self._runtime.labels(self._model_name, "Predict", "TF1").observe(seconds * 1e6)

    def shared(self, num_requests: int) -> None:
        """Count the requests that one run answered together."""
        self._batch_size.labels(self._model_name).observe(num_requests)

    def collect(self) -> Iterator[Metric]:
        """For the registry; the library's own counter would put _total behind TF Serving's name."""
        counts = Metric(f"{_PREFIX}request_count", "The total number of requests.", "unknown")
        for (name, code), count in list(self._statuses.items()):
            counts.add_sample(counts.name, {"model_name": name, "status": code}, count)
        yield counts

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)
