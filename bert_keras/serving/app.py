"""Builds an ASGI application that provides TF Serving's REST API for one model.

The modules of this package process a request in this order: `limits` reads the body, `json_text`
parses the JSON, `requests` or `examples` builds the input tensors, `batching`, `rows` and `model`
compute the outputs, and `responses` writes the body of the response.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from bert_keras.serving.calls import Call, Refusal, read_call
from bert_keras.serving.examples import (
    check_signature,
    labels_and_scores,
    read_examples,
    regression_values,
)
from bert_keras.serving.json_text import read_document
from bert_keras.serving.limits import BodyReader, Limits
from bert_keras.serving.monitoring import METRICS_PATH, Monitoring
from bert_keras.serving.page import page_response
from bert_keras.serving.requests import read_predict, read_signature_name
from bert_keras.serving.responses import (
    columns_body,
    error_body,
    json_body,
    metadata_body,
    results_body,
    rows_body,
)
from bert_keras.serving.servable import LoadedVersion
from bert_keras.serving.versions import Versions

# A step that would block the event loop for more than about a millisecond runs in a thread.
_MAX_BYTES_INLINE = 8 * 2**10  # size of a request body
_MAX_NUMBERS_INLINE = 1000  # elements of all output arrays

_NOT_FOUND_PAGE = (
    "<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
    "<H1>Not Found</H1>\n</BODY></HTML>\n"
)

T = TypeVar("T")


def create_app(
    model_folder: str | os.PathLike,
    *,
    versions: Sequence[int] = (),
    labels: Mapping[str, int] | None = None,
    limits: Limits | None = None,
) -> Starlette:
    """Build the REST API of a model.

    Args:
        model_folder: The folder saved_models/NAME, which holds one folder for each version.
        versions: Numbers of the versions to serve. By default the server always serves the latest.
        labels: Maps each label to a version number.
        limits: Limits on requests and batches; the defaults of `Limits` if None.

    Returns:
        The application, with all its versions loaded.

    Raises:
        InputError: If a version is missing or is not a SavedModel that TensorFlow can load, or if
            a label names a version that is not served.
    """
    limits = limits or Limits()
    monitoring = Monitoring(Path(model_folder).resolve().name)
    load = partial(LoadedVersion, limits=limits, monitoring=monitoring)
    served = Versions(model_folder, numbers=versions, labels=labels, load=load)
    api = _RestApi(served, limits, monitoring)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            response = await api.respond(Request(scope, receive))
            await response(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        served.watch()
        yield
        api.close()

    app = Starlette(lifespan=lifespan)
    app.router.default = respond  # the pattern of a route does not match a path with a newline
    return app


class _RestApi:
    """Responds to the requests for one model."""

    def __init__(self, versions: Versions, limits: Limits, monitoring: Monitoring):
        self._versions = versions
        self._seconds = limits.seconds
        self._body_reader = BodyReader(limits)
        self._monitoring = monitoring
        # The threads share Python's global interpreter lock: more than two would not be faster and
        # would keep more documents in memory.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="reader")

    def close(self) -> None:
        """Stop watching the model folder and close all versions."""
        self._versions.close()
        self._threads.shutdown(cancel_futures=True)

    async def respond(self, request: Request) -> Response:
        """Respond to a request for the HTML page, the Prometheus metrics or the REST API."""
        path = request.scope["raw_path"].decode("utf-8", "surrogateescape")
        if query := request.scope["query_string"].decode("utf-8", "surrogateescape"):
            path = f"{path}?{query}"
        if (request.method, path) == ("GET", "/") and "html" in request.headers.get("accept", ""):
            return page_response(self._versions.name)
        if path == METRICS_PATH:
            return Response(self._monitoring.metrics_text(), media_type="text/plain")
        if not path.lower().startswith("/v1/"):
            return HTMLResponse(_NOT_FOUND_PAGE, status_code=404)
        if request.method == "OPTIONS":
            is_preflight = request.headers.get("origin", "").startswith(("http://", "https://"))
            return HTMLResponse("", status_code=200 if is_preflight else 400)
        return await self._rest_response(request, path)

    async def _rest_response(self, request: Request, path: str) -> Response:
        start, call, is_post = time.perf_counter(), Call("", None, None, ""), False
        try:
            call, is_post = read_call(request.method, path), request.method == "POST"
            content = await self._body_in_time(call, request) if is_post else self._describe(call)
            status = 200
        except Refusal as error:
            status, content = error.status, error_body(str(error))
        self._monitoring.count_request(
            call.model,
            api=call.verb if is_post else "",
            status=status,
            seconds=time.perf_counter() - start,
        )
        return Response(content, status_code=status, media_type="application/json")

    def _describe(self, call: Call) -> bytes:
        if call.verb == "status":
            return json_body({"model_version_status": self._versions.statuses(call)})
        with self._versions.serving(call) as (number, servable):
            signatures = servable.model.signatures
            return metadata_body(call.model, version=number, signatures=signatures)

    async def _body_in_time(self, call: Call, request: Request) -> bytes:
        """Return the response body.

        Raises:
            ClientDisconnect: If the client disconnects before the response is ready.
            Refused: If the request is faulty, or takes longer than the time limit (504).
        """
        async with self._body_reader.body(request) as body:
            response = asyncio.ensure_future(self._response_body(call, body))
            # The body is read, so the next message says that the client has disconnected.
            disconnection = asyncio.ensure_future(request.receive())
            try:
                done, _ = await asyncio.wait(
                    {response, disconnection},
                    timeout=self._seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if response in done:
                    return response.result()
                if disconnection in done:
                    raise ClientDisconnect
                raise Refusal(f"The request took more than {self._seconds:g} s", status=504)
            finally:
                response.cancel()
                disconnection.cancel()

    async def _response_body(self, call: Call, body: bytes) -> bytes:
        is_short = len(body) <= _MAX_BYTES_INLINE
        document = await self._run(is_short, read_document, body)
        name = read_signature_name(document)
        tensors = {}
        if call.verb != "predict":
            tensors["inputs"] = await self._run(is_short, read_examples, document)
        with self._versions.serving(call) as (_, servable):
            signatures = servable.model.signatures
            if call.verb == "predict":
                tensors = await self._run(is_short, read_predict, document, name, signatures)
            else:
                check_signature(call.verb, signatures, name)
            outputs = await asyncio.wrap_future(servable.batcher.submit(name, tensors))
        if call.verb == "predict":
            write = rows_body if "instances" in document else columns_body
            is_short = sum(array.size for array in outputs.values()) <= _MAX_NUMBERS_INLINE
            return await self._run(is_short, write, outputs)
        results = {"classify": labels_and_scores, "regress": regression_values}[call.verb]
        return results_body(results(outputs, num_examples=len(tensors["inputs"])))

    async def _run(self, is_short: bool, step: Callable[..., T], *values: object) -> T:
        """Run a short step in the event loop, and any other step in a thread."""
        if is_short:
            return step(*values)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, step, *values)
