"""Builds an ASGI application that provides the HTTP APIs of the server for one model.

A request passes these modules: `limits` reads its body, `requests` or `embeddings_api` reads the
tensors in its JSON, `batching` and `model` compute the outputs, and `responses` or `embeddings_api`
writes them as JSON.
"""

import asyncio
import base64
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Template
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from bert_keras.serving.embeddings_api import (
    COUNTS,
    check_signatures,
    embeddings_response,
    error_response,
    read_embeddings_request,
)
from bert_keras.serving.limits import BodyReader, Limits
from bert_keras.serving.model import Tensors
from bert_keras.serving.monitoring import METRICS_PATH, Monitoring
from bert_keras.serving.requests import (
    DEFAULT_SIGNATURE,
    Call,
    Refusal,
    read_call,
    read_document,
    read_predict,
)
from bert_keras.serving.responses import json_bytes, metadata, predictions
from bert_keras.serving.versions import Versions, load_version

_NOT_FOUND = "<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
_NOT_FOUND += "<H1>Not Found</H1>\n</BODY></HTML>\n"
_SHUTDOWN = "The server is shutting down"
# A step that would block the event loop for more than about a millisecond runs in a thread.
_MAX_BYTES_INLINE = 8 * 2**10  # size of a request body
_MAX_NUMBERS_INLINE = 1000  # elements of all output arrays


def create_app(
    model_folder: str | os.PathLike, *, versions: Sequence[int] = (), limits: Limits | None = None
) -> Starlette:
    """Loads a model and returns its HTTP APIs; the arguments are those of `serve`."""
    limits = limits or Limits()
    monitoring = Monitoring(Path(model_folder).resolve().name)
    load = partial(load_version, limits=limits, on_run=monitoring.count_run)
    served = Versions(model_folder, numbers=versions, load=load)
    server = _Server(served, limits, monitoring)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            response = await server.respond(Request(scope, receive))
            await response(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        served.watch()
        yield
        server.close()

    app = Starlette(lifespan=lifespan)
    app.router.default = respond  # the pattern of a route does not match a path with a newline
    return app


class _Server:
    """Responds to each request within the limits, and counts it."""

    def __init__(self, versions: Versions, limits: Limits, monitoring: Monitoring):
        self._versions = versions
        self._seconds = limits.seconds
        self._body_reader = BodyReader(limits)
        self._monitoring = monitoring
        self._page = page_response(versions.name)
        # The threads share Python's global interpreter lock: more than two would not be faster and
        # would keep more documents in memory.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="reader")

    def close(self) -> None:
        """Closes all versions."""
        self._versions.close()
        self._threads.shutdown(cancel_futures=True)

    async def respond(self, request: Request) -> Response:
        """Responds to a request for the HTML page, the Prometheus metrics or one of the APIs."""
        path = request.scope["raw_path"].decode("utf-8", "replace")
        if query := request.scope["query_string"].decode("utf-8", "replace"):
            path = f"{path}?{query}"
        if (request.method, path) == ("GET", "/") and "html" in request.headers.get("accept", ""):
            return self._page
        if path == METRICS_PATH:
            return Response(self._monitoring.metrics_text(), media_type="text/plain")
        if not path.startswith("/v1/"):
            return HTMLResponse(_NOT_FOUND, status_code=404)
        if request.method == "OPTIONS":
            return HTMLResponse("", status_code=400)
        start, call, status = time.perf_counter(), Call(""), 200
        try:
            call = read_call(request.method, path)
            content = await self._content(request, call)
        except (Refusal, asyncio.CancelledError) as error:
            # uvicorn cancels the requests that still run at the end of its grace time.
            refusal = error if isinstance(error, Refusal) else Refusal(_SHUTDOWN, status=503)
            status, is_openai = refusal.status, call.verb == "embeddings"
            content = json_bytes(error_response(refusal) if is_openai else {"error": str(refusal)})
        self._monitoring.count_request(
            "" if call.model not in ("", self._versions.name) else self._versions.name,
            api=call.verb,
            status=status,
            seconds=time.perf_counter() - start,
        )
        return Response(content, status_code=status, media_type="application/json")

    async def _content(self, request: Request, call: Call) -> bytes:
        if respond := {"predict": self._predict, "embeddings": self._embed}.get(call.verb):
            return await self._in_time(request, partial(respond, call))
        if call.verb == "status":
            document: dict[str, Any] = {"model_version_status": self._versions.statuses(call)}
        else:
            with self._versions.serving(call) as (number, batcher):
                signatures = batcher.model.signatures
                document = metadata(call.model, version=number, signatures=signatures)
        return json_bytes(document, indent=2)

    async def _in_time(
        self, request: Request, respond: Callable[[bytes], Awaitable[bytes]]
    ) -> bytes:
        """Returns the response body that `respond` computes, or raises Refusal after some time.

        As in TF Serving, the request of a client that disconnects meanwhile runs to its end.
        """
        async with self._body_reader.body(request) as body:
            try:
                return await asyncio.wait_for(respond(body), self._seconds)
            except TimeoutError:
                message = f"The request took more than {self._seconds:g} s"
                raise Refusal(message, status=504) from None

    async def _predict(self, call: Call, body: bytes) -> bytes:
        with self._versions.serving(call) as (_, batcher):

            def read():
                document = read_document(body)
                name, tensors = read_predict(document, batcher.model.inputs)
                return "instances" in document, batcher.prepare(name, tensors)

            by_row, queued = await self._step(len(body) <= _MAX_BYTES_INLINE, read)
            outputs = await asyncio.wrap_future(batcher.submit(queued))
        return await self._written(outputs, lambda: predictions(outputs, by_row=by_row))

    async def _embed(self, call: Call, body: bytes) -> bytes:
        model, is_short = self._versions.name, len(body) <= _MAX_BYTES_INLINE
        request = await self._step(is_short, lambda: read_embeddings_request(body, model))
        with self._versions.serving(replace(call, model=model)) as (_, batcher):
            check_signatures(model, batcher.model.signatures)

            async def outputs_of(signature_name: str) -> Tensors:
                prepare = partial(batcher.prepare, signature_name, {"text": request.texts})
                queued = await self._step(is_short, prepare)
                return await asyncio.wrap_future(batcher.submit(queued))

            outputs, counts = await asyncio.gather(
                outputs_of(DEFAULT_SIGNATURE), outputs_of(COUNTS)
            )
        both = outputs["embedding"], counts[COUNTS]
        return await self._written(
            outputs, lambda: embeddings_response(request, *both, model=model)
        )

    async def _written(self, outputs: Tensors, document: Callable[[], object]) -> bytes:
        num_numbers = sum(array.size for array in outputs.values())
        return await self._step(num_numbers <= _MAX_NUMBERS_INLINE, lambda: json_bytes(document()))

    async def _step(self, is_short: bool, step: Callable[[], Any]) -> Any:
        """Runs a step in the event loop, or in a thread if it would block the loop."""
        if is_short:
            return step()
        return await asyncio.get_running_loop().run_in_executor(self._threads, step)


def page_response(model: str) -> HTMLResponse:
    """Returns the HTML page on which a user tries a served model in the browser.

    Its Content-Security-Policy allows only the page's own script and requests to this server, so
    the browser never executes a text or a response as a script.
    """
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
