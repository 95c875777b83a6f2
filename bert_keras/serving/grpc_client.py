"""Sends predict requests to a model over TF Serving's gRPC PredictionService.

JSON bodies are read, and predictions written, by the code of the local server: a model gives the
same predictions over gRPC as over REST.
"""

import contextlib
import importlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

from bert_keras.errors import InputError
from bert_keras.serving.calls import Refused
from bert_keras.serving.json_text import read_document
from bert_keras.serving.requests import read_predict, read_signature_name
from bert_keras.serving.responses import rows_body
from bert_keras.serving.rest_client import Unavailable, too_slow

_URL = re.compile(
    r"grpc://(?P<target>[^/?#]+)/(?P<model>[^/:?#]+)"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:?#]+))?"
)
# Answers may have any size, as over REST; grpcio's own limit is 4 MiB.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


class GrpcConnection:
    """A connection to the model at `url` (grpc://HOST:PORT/NAME), kept open.

    Only the methods of its kind, `is_async` or not, may be called.

    Raises:
        InputError: for another URL.
    """

    def __init__(self, url: str, *, timeout: float, is_async: bool):
        import grpc
        from grpc import aio

        if not (match := _URL.fullmatch(url)):
            raise InputError(
                f"{url} is no URL of a model; expected grpc://HOST:PORT/NAME, and behind it "
                "/versions/N where one version is meant"
            )
        self._url, self._timeout = url, timeout
        self._model = _apis("model_pb2").ModelSpec(name=unquote(match["model"]))
        if match["version"]:
            self._model.version.value = int(match["version"])
        if match["label"]:
            self._model.version_label = unquote(match["label"])
        self._signatures: Mapping[str, Any] = {}  # asked for with the first request
        module = aio if is_async else grpc
        self._channel: Any = module.insecure_channel(match["target"], options=_OPTIONS)
        service = _apis("prediction_service_pb2_grpc").PredictionServiceStub(self._channel)
        self._get_metadata = partial(
            service.GetModelMetadata,
            _apis("get_model_metadata_pb2").GetModelMetadataRequest(
                model_spec=self._model, metadata_field=["signature_def"]
            ),
            timeout=timeout,
        )
        self._predict = partial(service.Predict, timeout=timeout)

    def ask(self, body: bytes) -> list:
        """The predictions for the JSON body of a predict request.

        Raises:
            InputError: with the server's sentence, or with why there is none.
        """
        with self._errors():
            self._signatures = self._signatures or _signatures(self._get_metadata())
            return _predictions(self._predict(self._request(body)))

    async def ask_async(self, body: bytes) -> list:
        """As `ask`."""
        with self._errors():
            self._signatures = self._signatures or _signatures(await self._get_metadata())
            return _predictions(await self._predict(self._request(body)))

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    async def close_async(self) -> None:
        """As `close`."""
        await self._channel.close()

    def _request(self, body: bytes) -> Any:
        """The PredictRequest of a JSON body."""
        from tensorflow import make_tensor_proto

        document = read_document(body)
        request = _apis("predict_pb2").PredictRequest(model_spec=self._model)
        name = request.model_spec.signature_name = read_signature_name(document)
        for input_name, array in read_predict(document, name, self._signatures).items():
            request.inputs[input_name].CopyFrom(make_tensor_proto(array))
        return request

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what gRPC raises into InputErrors."""
        import grpc

        try:
            yield
        except Refused as refusal:
            raise InputError(f"{self._url} cannot be asked this: {refusal.sentence}") from refusal
        except grpc.RpcError as error:
            status: Any = error  # every RpcError of a call is a grpc.Call
            if status.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise too_slow(self._url, self._timeout) from error
            message = f"{self._url} answered {status.code().name}: {status.details()}"
            busy = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
            raise (Unavailable if status.code() in busy else InputError)(message) from error


def _apis(module: str) -> Any:
    """A module of tensorflow_serving.apis; its classes are made when it is imported, so that no
    type checker knows them."""
    return importlib.import_module(f"tensorflow_serving.apis.{module}")


def _signatures(metadata: Any) -> Mapping[str, Any]:
    """The SignatureDefs of a GetModelMetadataResponse, by name."""
    found = _apis("get_model_metadata_pb2").SignatureDefMap()
    metadata.metadata["signature_def"].Unpack(found)
    return found.signature_def


def _predictions(response: Any) -> list:
    """Of a PredictResponse."""
    from tensorflow import make_ndarray

    outputs = {name: make_ndarray(response.outputs[name]) for name in sorted(response.outputs)}
    return json.loads(rows_body(outputs).decode(errors="replace"))["predictions"]
