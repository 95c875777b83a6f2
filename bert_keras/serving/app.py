"""Builds an ASGI application that provides the HTTP APIs of the server for one model."""

import asyncio
import base64
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Template
from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from bert_keras.errors import printable
from bert_keras.files import StrPath
from bert_keras.serving import embeddings_api, rest_api
from bert_keras.serving.embeddings_api import COUNTS
from bert_keras.serving.limits import BodyReader, Limits
from bert_keras.serving.rest_api import CODES, DEFAULT_SIGNATURE, Call, Refusal, Tensors, json_bytes
from bert_keras.serving.versions import Versions, load_version

HEALTH_PATH = "/healthz"  # for load balancers; TF Serving has none
METRICS_PATH = "/monitoring/prometheus/metrics"
_NOT_FOUND = "<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
_NOT_FOUND += "<H1>Not Found</H1>\n</BODY></HTML>\n"
_SHUTDOWN = "The server is shutting down"
# A step that would block the event loop for more than about a millisecond runs in a thread.
_MAX_BYTES_INLINE = 8 * 2**10  # size of a request body
_MAX_NUMBERS_INLINE = 1000  # elements of all output arrays
_PREFIX = ":tensorflow:serving:"
# Bucket bounds in microseconds, from tensorflow_serving/servables/tensorflow/util.cc, and requests.
_LATENCIES = [10 * 1.8**exponent for exponent in range(33)]
_BATCH_SIZES = [2**exponent for exponent in range(15)]


def create_app(model_folder: StrPath, *, versions: Sequence[int], limits: Limits) -> Starlette:
    """Loads a model and returns its HTTP APIs; `serve` documents the arguments."""
    server = _Server(model_folder, versions, limits)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect, asyncio.CancelledError):
            response = await server.respond(Request(scope, receive))
            await response(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.versions.watch()
        yield
        server.close()

    app = Starlette(lifespan=lifespan)
    app.router.default = respond  # the pattern of a route does not match a path with a newline
    return app


class _Server:
    """Responds to each request within the limits; counts requests and session runs."""

    def __init__(self, model_folder: StrPath, numbers: Sequence[int], limits: Limits):
        load = partial(load_version, limits=limits, on_run=self._count_run)
        self._seconds, self._next_log = limits.seconds, 0.0
        self._body_reader = BodyReader(limits)
        self._add_metrics(Path(model_folder).resolve().name)
        self.versions = Versions(model_folder, numbers=numbers, load=load)
        self._page = page_response(self.versions.name)
        # The threads share Python's global interpreter lock: more than two would not be faster and
        # would keep more documents in memory.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="reader")

    def _add_metrics(self, model_name: str) -> None:
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

    def _count_run(self, *, num_requests: int, seconds: float) -> None:
        self._runtime.observe(seconds * 1e6)
        self._batch_size.observe(num_requests)

    def close(self) -> None:
        """Closes all versions."""
        self.versions.close()
        self._threads.shutdown(cancel_futures=True)

    async def respond(self, request: Request) -> Response:
        """Responds to a request for the HTML page, the Prometheus metrics or one of the APIs."""
        path = request.scope["raw_path"].decode("utf-8", "replace")
        if query := request.scope["query_string"].decode("utf-8", "replace"):
            path = f"{path}?{query}"
        if (request.method, path) == ("GET", "/") and "html" in request.headers.get("accept", ""):
            return self._page
        if request.method == "CONNECT":  # a response with the status 200 would begin a tunnel
            return HTMLResponse(_NOT_FOUND, status_code=404)
        if path == HEALTH_PATH:
            is_ready = self.versions.is_available
            return PlainTextResponse(["loading\n", "ok\n"][is_ready], [503, 200][is_ready])
        if path == METRICS_PATH:
            return Response(generate_latest(self._registry), media_type="text/plain")
        if not path.startswith("/v1/"):
            return HTMLResponse(_NOT_FOUND, status_code=404)
        if request.method == "OPTIONS":
            has_origin = request.headers.get("origin", "").startswith(("http://", "https://"))
            return HTMLResponse("", status_code=200 if has_origin else 400)
        start, call, status = time.perf_counter(), Call(""), 200
        try:
            call = rest_api.read_call(request.method, path)
            content = await self._content(request, call)
        except (Refusal, asyncio.CancelledError) as error:
            # uvicorn cancels the requests that still run at the end of its grace time.
            refusal = error if isinstance(error, Refusal) else Refusal(_SHUTDOWN, status=503)
            is_openai, status = call.verb == "embeddings", refusal.status
            error = embeddings_api.make_error(refusal) if is_openai else str(refusal)
            content = json_bytes({"error": error}) if str(refusal) else b""
            self._log_refusal(refusal)
        name = self.versions.name if call.model in ("", self.versions.name) else ""
        self._requests.labels(name, CODES.get(status, "UNKNOWN")).inc()
        if status == 200:
            latency = self._latency.labels(name, call.verb, "REST")
            latency.observe((time.perf_counter() - start) * 1e6)
        return Response(content, status_code=status, media_type="application/json")

    def _log_refusal(self, refusal: Refusal) -> None:
        """Logs a refusal, at most one a second, with the names that a request may use."""
        if refusal.status not in (400, 404) or time.monotonic() < self._next_log:
            return
        self._next_log = time.monotonic() + 1
        inputs = {name: [*each] for name, each in self.versions.inputs().items()}
        text, names = printable(str(refusal))[:200], (self.versions.name, inputs)
        logging.getLogger(__name__).warning("%s; the model is %s, its inputs: %s", text, *names)

    async def _content(self, request: Request, call: Call) -> bytes:
        if call.verb == "status":
            return json_bytes({"model_version_status": self.versions.statuses(call)}, indent=2)
        if call.verb == "metadata":
            with self.versions.serving(call) as (number, batcher):
                signatures = batcher.model.signatures
            return json_bytes(rest_api.metadata_response(call.model, number, signatures), indent=2)
        compute = self._predict if call.verb == "predict" else self._embed
        # As in TF Serving, the request of a client that disconnects meanwhile runs to its end.
        async with self._body_reader.body(request) as body:
            try:
                return await asyncio.wait_for(compute(call, body), self._seconds)
            except TimeoutError:
                message = f"The request took more than {self._seconds:g} s"
                raise Refusal(message, status=504) from None

    async def _predict(self, call: Call, body: bytes) -> bytes:
        with self.versions.serving(call) as (_, batcher):

            def read():
                document = rest_api.read_document(body)
                name, tensors = rest_api.read_predict(document, batcher.model.inputs)
                return "instances" in document, batcher.prepare(name, tensors)

            by_row, queued = await self._run_step(len(body) <= _MAX_BYTES_INLINE, read)
            outputs = await asyncio.wrap_future(batcher.submit(queued))
        return await self._write(outputs, lambda: rest_api.predict_response(outputs, by_row=by_row))

    async def _embed(self, call: Call, body: bytes) -> bytes:
        model, is_short = self.versions.name, len(body) <= _MAX_BYTES_INLINE
        request = await self._run_step(is_short, lambda: embeddings_api.read_request(body, model))
        with self.versions.serving(replace(call, model=model)) as (_, batcher):
            embeddings_api.check_signatures(model, batcher.model.signatures)

            async def run(signature_name: str) -> Tensors:
                prepare = partial(batcher.prepare, signature_name, {"text": request.texts})
                queued = await self._run_step(is_short, prepare)
                return await asyncio.wrap_future(batcher.submit(queued))

            outputs, counts = await asyncio.gather(run(DEFAULT_SIGNATURE), run(COUNTS))
        arrays = outputs["embedding"], counts[COUNTS]
        respond = partial(embeddings_api.make_response, request, *arrays)
        return await self._write(outputs, respond)

    async def _write(self, outputs: Tensors, respond: Callable[[], object]) -> bytes:
        is_short = sum(array.size for array in outputs.values()) <= _MAX_NUMBERS_INLINE
        return await self._run_step(is_short, lambda: json_bytes(respond()))

    async def _run_step(self, is_short: bool, step: Callable[[], Any]) -> Any:
        """Runs a step in the event loop, or in a thread if it would block the loop."""
        loop = asyncio.get_running_loop()
        return step() if is_short else await loop.run_in_executor(self._threads, step)


def page_response(model: str) -> HTMLResponse:
    """Returns the HTML page on which a user tries a model; it may execute only its own script."""
    text = files("bert_keras.serving").joinpath("page.html").read_text(encoding="utf-8")
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", "Vary": "Accept"}
    return HTMLResponse(Template(text, autoescape=True).render(model=model), headers=headers)
