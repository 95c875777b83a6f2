"""TF Serving's REST API for one model: an HTTP request comes in, its status and body go out."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from bert_keras.serving.answering import Answering
from bert_keras.serving.intake import Intake
from bert_keras.serving.limits import Limits
from bert_keras.serving.monitoring import PAGE_PATH
from bert_keras.serving.page import page_response
from bert_keras.serving.protocol import NOT_FOUND_PAGE, Call, Refused, read_call


def create_app(
    model_folder: str | os.PathLike,
    *,
    versions: Sequence[int] = (),
    labels: Mapping[str, int] | None = None,
    limits: Limits | None = None,
) -> Starlette:
    """The REST API of `versions`, or always the latest version, in `model_folder`
    (saved_models/NAME); `labels` maps names to versions.

    Raises InputError where there is no SavedModel that TensorFlow can load.
    """
    limits = limits or Limits()
    answering = Answering(model_folder, versions=versions, labels=labels, limits=limits)
    intake = Intake(limits)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            response = await _respond(answering, intake, Request(scope, receive))
            await response(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        answering.versions.watch()
        yield
        answering.close()

    app = Starlette(lifespan=lifespan)
    app.router.default = answer  # a route's pattern would leave out paths with a line's end
    return app


async def _respond(answering: Answering, intake: Intake, request: Request) -> Response:
    path = request.scope["raw_path"].decode("utf-8", "surrogateescape")
    if query := request.scope["query_string"].decode("utf-8", "surrogateescape"):
        path = f"{path}?{query}"
    if (request.method, path) == ("GET", "/") and "html" in request.headers.get("accept", ""):
        return page_response(answering.versions.name)
    if path == PAGE_PATH:
        return Response(answering.monitoring.page(), media_type="text/plain")
    if not path.lower().startswith("/v1/"):
        return HTMLResponse(NOT_FOUND_PAGE, status_code=404)
    if request.method == "OPTIONS":
        is_preflight = request.headers.get("origin", "").startswith(("http://", "https://"))
        return HTMLResponse("", status_code=200 if is_preflight else 400)
    start, call = time.perf_counter(), Call("", None, None, "")
    try:
        call = read_call(request.method, path)
        if request.method == "POST":
            status, content = 200, await _answer_a_body(answering, intake, call, request)
        else:
            status, content = 200, await answering.answer(call, b"")
    except Refused as refusal:
        status, content = refusal.status, refusal.body()
    except RecursionError:
        refusal = Refused("JSON Parse error: the values are nested too deeply")
        status, content = refusal.status, refusal.body()
    answering.monitoring.answered(
        call.model,
        api=call.verb if request.method == "POST" else "",
        status=status,
        seconds=time.perf_counter() - start,
    )
    return Response(content, status_code=status, media_type="application/json")


async def _answer_a_body(
    answering: Answering, intake: Intake, call: Call, request: Request
) -> bytes:
    """The answer, in the time that a request has and as long as its client is there for it."""
    async with intake.body(request) as body:
        answer = asyncio.ensure_future(answering.answer(call, body))
        gone = asyncio.ensure_future(request.receive())  # the next message is the client's leaving
        try:
            done, _ = await asyncio.wait(
                {answer, gone}, timeout=intake.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if answer in done:
                return answer.result()
            if gone in done:
                raise ClientDisconnect
            raise Refused(f"The request took more than {intake.seconds:g} s", status=504)
        finally:
            answer.cancel()
            gone.cancel()
