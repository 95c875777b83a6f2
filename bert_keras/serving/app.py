"""Builds an ASGI application that provides the HTTP APIs of the server for one model.

The modules of this package process a request in this order: `limits` reads the body and `json_text`
parses the JSON. `rest_api`, with `requests` and `examples`, `embeddings_api` or `rerank_api` builds
the input tensors. `batching`, `rows` and `model` compute the outputs, and the same API writes the
body of the response.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from bert_keras.serving.calls import Call, Refusal, read_call
from bert_keras.serving.embeddings_api import EmbeddingsApi
from bert_keras.serving.limits import BodyReader, Limits
from bert_keras.serving.monitoring import METRICS_PATH, Monitoring
from bert_keras.serving.page import page_response
from bert_keras.serving.rerank_api import RerankApi
from bert_keras.serving.rest_api import RestApi
from bert_keras.serving.servable import LoadedVersion
from bert_keras.serving.steps import Steps
from bert_keras.serving.versions import Versions

_NOT_FOUND_PAGE = (
    "<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
    "<H1>Not Found</H1>\n</BODY></HTML>\n"
)


def create_app(
    model_folder: str | os.PathLike,
    *,
    versions: Sequence[int] = (),
    labels: Mapping[str, int] | None = None,
    limits: Limits | None = None,
) -> Starlette:
    """Build the HTTP APIs of a model.

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
    paths = _Paths(served, limits, monitoring)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            response = await paths.respond(Request(scope, receive))
            await response(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        served.watch()
        yield
        paths.close()

    app = Starlette(lifespan=lifespan)
    app.router.default = respond  # the pattern of a route does not match a path with a newline
    return app


class _Paths:
    """Sends each request to the API of its path, within the limits, and counts it."""

    def __init__(self, versions: Versions, limits: Limits, monitoring: Monitoring):
        self._versions = versions
        self._seconds = limits.seconds
        self._body_reader = BodyReader(limits)
        self._monitoring = monitoring
        self._steps = Steps()
        self._rest_api = RestApi(versions, self._steps)
        self._posts = {
            api.path: api
            for api in (EmbeddingsApi(versions, self._steps), RerankApi(versions, self._steps))
        }

    def close(self) -> None:
        """Stop watching the model folder and close all versions."""
        self._versions.close()
        self._steps.close()

    async def respond(self, request: Request) -> Response:
        """Respond to a request for the HTML page, the Prometheus metrics or one of the APIs."""
        path = only_path = request.scope["raw_path"].decode("utf-8", "surrogateescape")
        if query := request.scope["query_string"].decode("utf-8", "surrogateescape"):
            path = f"{path}?{query}"
        if (request.method, path) == ("GET", "/") and "html" in request.headers.get("accept", ""):
            return page_response(self._versions.name)
        if path == METRICS_PATH:
            return Response(self._monitoring.metrics_text(), media_type="text/plain")
        if request.method == "POST" and (api := self._posts.get(only_path)):
            return await self._post_response(api, request)
        if not path.lower().startswith("/v1/"):
            return HTMLResponse(_NOT_FOUND_PAGE, status_code=404)
        if request.method == "OPTIONS":
            is_preflight = request.headers.get("origin", "").startswith(("http://", "https://"))
            return HTMLResponse("", status_code=200 if is_preflight else 400)
        return await self._rest_response(request, path)

    async def _post_response(self, api: EmbeddingsApi | RerankApi, request: Request) -> Response:
        start = time.perf_counter()
        try:
            status, content = 200, await self._content_in_time(request, api.respond)
        except Refusal as refusal:
            status, content = api.error(refusal)
        model = self._versions.name if status != 404 else ""  # 404: no model of the requested name
        name = api.path.rpartition("/")[2]
        return self._counted(content, model=model, api=name, status=status, start=start)

    async def _rest_response(self, request: Request, path: str) -> Response:
        start, call, is_post = time.perf_counter(), Call("", None, None, ""), False
        try:
            call, is_post = read_call(request.method, path), request.method == "POST"
            if is_post:
                respond = partial(self._rest_api.respond, call)
                content = await self._content_in_time(request, respond)
            else:
                content = self._rest_api.describe(call)
            status = 200
        except Refusal as refusal:
            status, content = self._rest_api.error(refusal)
        api = call.verb if is_post else ""
        return self._counted(content, model=call.model, api=api, status=status, start=start)

    def _counted(
        self, content: bytes, *, model: str, api: str, status: int, start: float
    ) -> Response:
        seconds = time.perf_counter() - start
        self._monitoring.count_request(model, api=api, status=status, seconds=seconds)
        return Response(content, status_code=status, media_type="application/json")

    async def _content_in_time(
        self, request: Request, respond: Callable[[bytes], Awaitable[bytes]]
    ) -> bytes:
        """Return the response body that `respond` computes from the request body.

        Raises:
            ClientDisconnect: If the client disconnects before the response is ready.
            Refusal: If the request is faulty, or takes longer than the time limit (504).
        """
        async with self._body_reader.body(request) as body:
            response = asyncio.ensure_future(respond(body))
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
