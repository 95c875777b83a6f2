"""Sends predict requests to a model over TF Serving's gRPC PredictionService.

The code of the local server parses the JSON bodies and formats the predictions, so the predictions
of a model are the same over gRPC as over REST.
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
from bert_keras.exporting.version_folder import LARGEST_VERSION, is_version
from bert_keras.serving.calls import Refusal
from bert_keras.serving.json_text import read_document
from bert_keras.serving.requests import read_predict, read_signature_name
from bert_keras.serving.responses import rows_body
from bert_keras.serving.rest_client import UnavailableError, timeout_error

_URL = re.compile(
    r"grpc://(?P<target>[^/?#]+)/(?P<model>[^/:?#]+)"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:?#]+))?"
)
# A response may have any size, as over REST; the default limit of grpcio is 4 MiB.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


class GrpcConnection:
    """A connection to one model over gRPC, which stays open until it is closed.

    Args:
        url: grpc://HOST:PORT/NAME, followed by /versions/N or /labels/LABEL to select one version.
        timeout: The most seconds that a request may take.
        is_async: Whether the connection is for `predict_async` and `close_async` instead of
            `predict` and `close`.

    Raises:
        InputError: If `url` has another form or the version is too large.
    """

    def __init__(self, url: str, *, timeout: float, is_async: bool):
        import grpc
        from grpc import aio

        if not (match := _URL.fullmatch(url)):
            raise InputError(
                f"{url} is not the URL of a model; expected grpc://HOST:PORT/NAME, followed by "
                "/versions/N or /labels/LABEL to select one version"
            )
        self._url, self._timeout = url, timeout
        self._model = _apis("model_pb2").ModelSpec(name=unquote(match["model"]))
        if version := match["version"]:
            if not is_version(version):
                raise InputError(
                    f"{url} selects version {version}; expected at most {LARGEST_VERSION}"
                )
            self._model.version.value = int(version)
        if match["label"]:
            self._model.version_label = unquote(match["label"])
        self._signatures: Mapping[str, Any] = {}  # fetched before the first request
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

    def predict(self, body: bytes) -> list:
        """Send a predict request.

        Args:
            body: The JSON body that the REST API would get.

        Returns:
            One prediction for each instance.

        Raises:
            UnavailableError: If no server responds or it is busy.
            InputError: If the server rejects the request, with the server's message, or if the
                response takes too long.
        """
        with self._errors():
            self._signatures = self._signatures or _signatures(self._get_metadata())
            return _predictions(self._predict(self._request(body)))

    async def predict_async(self, body: bytes) -> list:
        """Same as `predict`, but asynchronous."""
        with self._errors():
            self._signatures = self._signatures or _signatures(await self._get_metadata())
            return _predictions(await self._predict(self._request(body)))

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    async def close_async(self) -> None:
        """Same as `close`, but asynchronous."""
        await self._channel.close()

    def _request(self, body: bytes) -> Any:
        """Convert a JSON body to a PredictRequest."""
        from tensorflow import make_tensor_proto

        document = read_document(body)
        request = _apis("predict_pb2").PredictRequest(model_spec=self._model)
        name = request.model_spec.signature_name = read_signature_name(document)
        for input_name, array in read_predict(document, name, self._signatures).items():
            request.inputs[input_name].CopyFrom(make_tensor_proto(array))
        return request

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the exceptions of gRPC to InputErrors."""
        import grpc

        try:
            yield
        except Refusal as error:
            raise InputError(f"the request to {self._url} is not valid: {error}") from error
        except grpc.RpcError as error:
            status: Any = error  # every RpcError of a call is a grpc.Call
            if status.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise timeout_error(self._url, self._timeout) from error
            message = f"{self._url} returned {status.code().name}: {status.details()}"
            busy = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
            raise (UnavailableError if status.code() in busy else InputError)(message) from error


def _apis(module: str) -> Any:
    """Import a module of tensorflow_serving.apis.

    Its classes are created at import time, so a type checker cannot find them.
    """
    return importlib.import_module(f"tensorflow_serving.apis.{module}")


def _signatures(metadata: Any) -> Mapping[str, Any]:
    """Return the SignatureDefs of a GetModelMetadataResponse, by name."""
    definitions = _apis("get_model_metadata_pb2").SignatureDefMap()
    metadata.metadata["signature_def"].Unpack(definitions)
    return definitions.signature_def


def _predictions(response: Any) -> list:
    """Return the predictions of a PredictResponse, one for each instance."""
    from tensorflow import make_ndarray

    outputs = {name: make_ndarray(response.outputs[name]) for name in sorted(response.outputs)}
    return json.loads(rows_body(outputs).decode(errors="replace"))["predictions"]
