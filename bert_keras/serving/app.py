"""TF Serving's REST API for one model: an HTTP request comes in, its status and body go out."""

import contextlib
import os
import zlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from bert_keras.serving.answers import columns_body, rows_body
from bert_keras.serving.model import ServedModel
from bert_keras.serving.protocol import NOT_FOUND_PAGE, Call, Refused, json_bytes, read_call
from bert_keras.serving.requests import (
    DEFAULT_SIGNATURE,
    check_examples,
    read_document,
    read_predict,
    read_signature_name,
)


def create_app(model_folder: str | os.PathLike) -> Starlette:
    """The REST API of the latest version in `model_folder` (saved_models/NAME).

    Raises InputError where there is no SavedModel that TensorFlow can load.
    """
    model = ServedModel(model_folder)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            response = await _respond(model, Request(scope, receive))
            await response(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        model.close()

    return Starlette(routes=[Mount("/", app=answer)], lifespan=lifespan)


async def _respond(model: ServedModel, request: Request) -> Response:
    path = request.scope["raw_path"].decode("utf-8", "surrogateescape")
    if query := request.scope["query_string"].decode("utf-8", "surrogateescape"):
        path = f"{path}?{query}"
    if not path.lower().startswith("/v1/"):
        return HTMLResponse(NOT_FOUND_PAGE, status_code=404)
    if request.method == "OPTIONS":
        is_preflight = request.headers.get("origin", "").startswith(("http://", "https://"))
        return HTMLResponse("", status_code=200 if is_preflight else 400)
    body = await request.body()
    if "gzip" in request.headers.get("content-encoding", ""):
        body = await run_in_threadpool(_unzipped, body)
    status, content = await run_in_threadpool(_answer, model, request.method, path, body)
    return Response(content, status_code=status, media_type="application/json")


def _unzipped(body: bytes) -> bytes:
    try:
        return zlib.decompress(body, wbits=zlib.MAX_WBITS | 16)
    except zlib.error:
        return b""  # as TF Serving does: the JSON parser then says that the document is empty


def _answer(model: ServedModel, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    """Status and JSON body of one request."""
    try:
        call = read_call(method, path)
        if call.verb == "status":
            return 200, _status(model, call)
        if call.verb == "metadata":
            _check_served(model, call)
            return 200, json_bytes(model.metadata())
        if call.verb == "predict":
            return 200, _predict(model, call, body)
        return _classify_or_regress(model, call, body)
    except Refused as refusal:
        return refusal.status, refusal.body()
    except RecursionError:
        refusal = Refused("JSON Parse error: the values are nested too deeply")
        return refusal.status, refusal.body()


def _check_served(model: ServedModel, call: Call) -> None:
    if call.label is not None:
        raise Refused(f"Unrecognized servable version label: {call.label}")
    if call.model != model.name or call.version not in (None, model.version):
        raise Refused(f"Servable not found for request: {call.servable}", status=404)


def _status(model: ServedModel, call: Call) -> bytes:
    if call.version is not None and (call.model, call.version) != (model.name, model.version):
        raise Refused(f"Could not find version {call.version} of model {call.model}", status=404)
    if call.model != model.name:
        raise Refused(f"Could not find any versions of model {call.model}", status=404)
    version = {
        "version": str(model.version),
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    return json_bytes({"model_version_status": [version]})


def _predict(model: ServedModel, call: Call, body: bytes) -> bytes:
    def inputs_of(signature_name: str) -> dict[str, str]:
        _check_served(model, call)
        return model.input_dtypes(signature_name)

    request = read_predict(body, inputs_of=inputs_of)
    outputs = model.predict(request.signature_name, request.tensors)
    return rows_body(outputs) if request.form == "instances" else columns_body(outputs)


def _classify_or_regress(model: ServedModel, call: Call, body: bytes) -> tuple[int, bytes]:
    """Our exports only have signatures for predict, so these end in the sentence that says so."""
    document = read_document(body)
    name = read_signature_name(document) or DEFAULT_SIGNATURE
    check_examples(document)
    _check_served(model, call)
    if name not in model.signatures:
        raise Refused(f"No signature was found with the name: {name}")
    method_name = model.signatures[name].method_name
    expected = f"tensorflow/serving/{call.verb}"
    if method_name != expected:
        kind = {"classify": "classification", "regress": "regression"}[call.verb]
        raise Refused(f"Expected {kind} signature method_name to be {expected}. Was: {method_name}")
    raise Refused(f"this server does not answer {call.verb}; TF Serving does", status=501)
