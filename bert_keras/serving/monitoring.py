"""Counts the requests and runs of a server for Prometheus, under the names of TF Serving."""

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, generate_latest

METRICS_PATH = "/monitoring/prometheus/metrics"

_PREFIX = ":tensorflow:serving:"
# Bucket bounds in microseconds, from tensorflow_serving/servables/tensorflow/util.cc, and requests.
_LATENCIES = [10 * 1.8**exponent for exponent in range(33)]
_BATCH_SIZES = [2**exponent for exponent in range(15)]
# HTTP status -> name of TensorFlow's error code
CODES = {
    **{200: "OK", 400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED"},
    **{408: "DEADLINE_EXCEEDED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"},
}


class Monitoring:
    """The metrics of the server of one model. Many threads may use them at the same time."""

    def __init__(self, model_name: str):
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        # A Counter would append "_total" to TF Serving's name of the metric.
        name, labels = f"{_PREFIX}request_count", ["model_name", "status"]
        self._requests = Gauge(name, "Requests.", labels, registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: list = _LATENCIES) -> Histogram:
            labels = ("model_name", *labels)
            return Histogram(f"{_PREFIX}{name}", text, labels, buckets=buckets, registry=registry)

        text = "Microseconds of a request that was answered."
        self._latency = histogram("request_latency", text, "API", "entrypoint")
        runtime = histogram("runtime_latency", "Microseconds of a session run.", "API", "runtime")
        self._runtime = runtime.labels(model_name, "Predict", "TF1")
        name, text = "batching_session:processed_batch_size", "Requests that shared a session run."
        self._batch_size = histogram(name, text, buckets=_BATCH_SIZES).labels(model_name)

    def count_request(self, model_name: str, *, api: str, status: int, seconds: float) -> None:
        """Counts a request; `model_name` is "" for a model that does not exist, `api` the verb."""
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
