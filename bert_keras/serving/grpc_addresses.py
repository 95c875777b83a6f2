"""grpc://HOST:PORT/NAME comes in; connections to TF Serving's PredictionService go out.

JSON bodies are read, and answers written, by the code of the local server: a model gives the same
predictions over gRPC as over REST.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import unquote

from bert_keras.errors import InputError
from bert_keras.serving.addresses import Unavailable
from bert_keras.serving.answers import rows_body
from bert_keras.serving.protocol import Refused
from bert_keras.serving.requests import input_dtypes, read_predict

_URL = re.compile(
    r"grpc://(?P<target>[^/?#]+)/(?P<model>[^/:?#]+)"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:?#]+))?"
)
# Answers may have any size, as over REST; grpcio's own limit is 4 MiB.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


def grpc_address_of(url: str, *, timeout: float) -> "GrpcAddress":
    """Raises InputError for another URL."""
    if not (match := _URL.fullmatch(url)):
        raise InputError(
            f"{url} is no URL of a model; expected grpc://HOST:PORT/NAME, and behind it "
            "/versions/N where one version is meant"
        )
    return GrpcAddress(url, match, timeout)


class GrpcAddress:
    """A model behind gRPC: its requests and answers, however they are sent."""

    def __init__(self, url: str, match: re.Match, timeout: float):
        from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest
        from tensorflow_serving.apis.model_pb2 import ModelSpec

        self.url, self.target, self.timeout = url, match["target"], timeout
        self.model = ModelSpec(name=unquote(match["model"]))
        if match["version"]:
            self.model.version.value = int(match["version"])
        if match["label"]:
            self.model.version_label = unquote(match["label"])
        self.metadata_request = GetModelMetadataRequest(
            model_spec=self.model, metadata_field=["signature_def"]
        )

    def opened(self) -> "GrpcConnection":
        return GrpcConnection(self)

    def opened_async(self) -> "AsyncGrpcConnection":
        return AsyncGrpcConnection(self)

    def signatures(self, metadata) -> Mapping:
        """The SignatureDefs of a GetModelMetadataResponse, by name."""
        from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap

        found = SignatureDefMap()
        metadata.metadata["signature_def"].Unpack(found)
        return found.signature_def

    def request(self, body: bytes, signatures: Mapping):
        """The PredictRequest of a JSON body."""
        from tensorflow import make_tensor_proto
        from tensorflow_serving.apis.predict_pb2 import PredictRequest

        read = read_predict(body, inputs_of=partial(input_dtypes, signatures))
        request = PredictRequest(model_spec=self.model)
        request.model_spec.signature_name = read.signature_name
        for name, array in read.tensors.items():
            request.inputs[name].CopyFrom(make_tensor_proto(array))
        return request

    def predictions(self, response) -> list:
        """Of a PredictResponse."""
        from tensorflow import make_ndarray

        outputs = {name: make_ndarray(response.outputs[name]) for name in sorted(response.outputs)}
        return json.loads(rows_body(outputs).decode(errors="replace"))["predictions"]

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """What gRPC raises, as InputErrors."""
        import grpc

        try:
            yield
        except Refused as refusal:
            raise InputError(f"{self.url} cannot be asked this: {refusal.sentence}") from refusal
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise InputError(
                    f"{self.url} took more than {self.timeout:g} seconds; give it more with "
                    "timeout, or smaller requests with batch_size"
                ) from error
            told = f"{self.url} answered {error.code().name}: {error.details()}"
            busy = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
            raise (Unavailable if error.code() in busy else InputError)(told) from error


class GrpcConnection:
    def __init__(self, address: GrpcAddress):
        import grpc
        from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

        self._address = address
        self._channel = grpc.insecure_channel(address.target, options=_OPTIONS)
        self._service = PredictionServiceStub(self._channel)
        self._signatures: Mapping = {}

    def ask(self, body: bytes) -> list:
        address = self._address
        with address.errors():
            if not self._signatures:
                metadata = self._service.GetModelMetadata(
                    address.metadata_request, timeout=address.timeout
                )
                self._signatures = address.signatures(metadata)
            request = address.request(body, self._signatures)
            return address.predictions(self._service.Predict(request, timeout=address.timeout))

    def close(self) -> None:
        self._channel.close()


class AsyncGrpcConnection:
    def __init__(self, address: GrpcAddress):
        from grpc import aio
        from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

        self._address = address
        self._channel = aio.insecure_channel(address.target, options=_OPTIONS)
        self._service = PredictionServiceStub(self._channel)
        self._signatures: Mapping = {}

    async def ask(self, body: bytes) -> list:
        address = self._address
        with address.errors():
            if not self._signatures:
                metadata = await self._service.GetModelMetadata(
                    address.metadata_request, timeout=address.timeout
                )
                self._signatures = address.signatures(metadata)
            request = address.request(body, self._signatures)
            response = await self._service.Predict(request, timeout=address.timeout)
            return address.predictions(response)

    async def close(self) -> None:
        await self._channel.close()
