"""Counts the requests and runs of a server and exports them to Prometheus as TF Serving does."""

from functools import partial

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, generate_latest

METRICS_PATH = "/monitoring/prometheus/metrics"

_PREFIX = ":tensorflow:serving:"
# Bucket bounds in microseconds, up to about 20 minutes, from
# tensorflow_serving/servables/tensorflow/util.cc, and in requests.
_LATENCIES = [10 * 1.8**exponent for exponent in range(33)]
_BATCH_SIZES = [2**exponent for exponent in range(15)]
# HTTP status -> name of TensorFlow's error code
CODES = {
    **{200: "OK", 400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 408: "DEADLINE_EXCEEDED"},
    **{429: "RESOURCE_EXHAUSTED", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE"},
    504: "DEADLINE_EXCEEDED",
}


class Monitoring:
    """The metrics of the server of one model. Many threads may use them at the same time."""

    def __init__(self, model_name: str):
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        # A Counter would append "_total" to TF Serving's name of the metric.
        self._requests = Gauge(
            f"{_PREFIX}request_count",
            "The total number of requests.",
            ["model_name", "status"],
            registry=self._registry,
        )
        self._latency = histogram(
            f"{_PREFIX}request_latency",
            "Wall time of a request that was answered, in microseconds.",
            ["model_name", "API", "entrypoint"],
            buckets=_LATENCIES,
        )
        runtime = histogram(
            f"{_PREFIX}runtime_latency",
            "Wall time of a session run, in microseconds.",
            ["model_name", "API", "runtime"],
            buckets=_LATENCIES,
        )
        batch_size = histogram(
            f"{_PREFIX}batching_session:processed_batch_size",
            "Requests that shared a session run.",
            ["model_name"],
            buckets=_BATCH_SIZES,
        )
        self._runtime = runtime.labels(model_name, "Predict", "TF1")
        self._batch_size = batch_size.labels(model_name)

    def count_request(self, model_name: str, *, api: str, status: int, seconds: float) -> None:
        """Counts a request.

        Args:
            model_name: Name of the served model; "" if another model was requested.
            api: "predict", "embeddings", or "" for a GET request.
            status: HTTP status of the response.
            seconds: Time from the start of the request to its response.
        """
        self._requests.labels(model_name, CODES.get(status, "UNKNOWN")).inc()
        if status == 200:
            self._latency.labels(model_name, api, "REST").observe(seconds * 1e6)

    def count_run(self, *, num_requests: int, seconds: float) -> None:
        """Counts a session run for the rows of `num_requests` requests."""
        self._runtime.observe(seconds * 1e6)
        self._batch_size.observe(num_requests)

    def metrics_text(self) -> bytes:
        """Returns all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
