"""Counts the requests and runs of a server and exports them to Prometheus as TF Serving does."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import Metric

METRICS_PATH = "/monitoring/prometheus/metrics"

# Bucket bounds in microseconds, up to about 20 minutes, from
# tensorflow_serving/servables/tensorflow/util.cc.
_LATENCIES = [10 * 1.8**exponent for exponent in range(33)]
_BATCH_SIZES = [2**exponent for exponent in range(15)]  # bucket bounds in requests
_PREFIX = ":tensorflow:serving:"
# HTTP status -> name of TensorFlow's error code
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
    """The metrics of one server. Many threads may use them at the same time.

    The name of a model that is not served is counted as "", because a client could otherwise
    create any number of labels.

    Args:
        model_name: Name of the served model.
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

    def count_request(self, model_name: str, *, api: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            model_name: Name of the requested model.
            api: The verb of a POST request; "" for a GET request.
            status: HTTP status of the response.
            seconds: Time from the start of the request to its response.
        """
        name = model_name if model_name == self._model_name else ""
        self._statuses[name, CODES.get(status, "UNKNOWN")] += 1
        if status == 200:
            self._latency.labels(name, api, "REST").observe(seconds * 1e6)

    def count_run(self, *, seconds: float) -> None:
        """Count a session run that took `seconds`."""
        self._runtime.labels(self._model_name, "Predict", "TF1").observe(seconds * 1e6)

    def count_batch(self, num_requests: int) -> None:
        """Count a batch with `num_requests` requests in it."""
        self._batch_size.labels(self._model_name).observe(num_requests)

    def collect(self) -> Iterator[Metric]:
        """Yield the request counts; the registry calls it.

        `prometheus_client.Counter` would append "_total" to TF Serving's name of the metric.
        """
        counts = Metric(f"{_PREFIX}request_count", "The total number of requests.", "unknown")
        for (name, code), count in list(self._statuses.items()):
            counts.add_sample(counts.name, {"model_name": name, "status": code}, count)
        yield counts

    def metrics_text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
