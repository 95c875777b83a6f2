"""The client over gRPC: a PredictionService and the REST server return equal predictions."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tensorflow_serving.apis import prediction_service_pb2_grpc as apis

from bert_keras.errors import InputError
from bert_keras.serving.client import AsyncClient, Client, predict


@contextlib.contextmanager
def prediction_service(folder, *, num_busy=0):
    """Serves a SavedModel as texty and yields the address; the first `num_busy` calls fail."""
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
    from tensorflow_serving.apis.get_model_metadata_pb2 import (
        GetModelMetadataResponse,
        SignatureDefMap,
    )
    from tensorflow_serving.apis.predict_pb2 import PredictResponse

    loaded = tf.saved_model.load(folder)
    definition = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    busy = iter(range(num_busy))

    class Service(apis.PredictionServiceServicer):
        def GetModelMetadata(self, request, context):
            if next(busy, None) is not None:
                context.abort(grpc.StatusCode.UNAVAILABLE, "still loading")
            self.check(request.model_spec, context)
            response = GetModelMetadataResponse(model_spec=request.model_spec)
            signatures = definition.meta_graphs[0].signature_def
            response.metadata["signature_def"].Pack(SignatureDefMap(signature_def=signatures))
            return response

        def Predict(self, request, context):
            self.check(request.model_spec, context)
            signature = loaded.signatures[request.model_spec.signature_name]
            inputs = {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
            try:
                outputs = signature(**{name: tf.constant(each) for name, each in inputs.items()})
            except (ValueError, TypeError, tf.errors.OpError) as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            response = PredictResponse(model_spec=request.model_spec)
            for name, tensor in outputs.items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor.numpy()))
            return response

        def check(self, spec, context):
            if spec.name != "texty" or spec.version.value not in (0, 1) or spec.version_label:
                context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found: {spec.name}")

    server = grpc.server(ThreadPoolExecutor(4))
    apis.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture(scope="module")
def service(models):
    with prediction_service(models / "texty" / "1") as address:
        yield address


@pytest.mark.parametrize(
    ("signature", "instances"),
    [
        (None, ["Hello worlds!", "", "ü 🎉"]),
        ("multi", [{"a": [1, 2], "b": 7}, {"b": -1, "a": [0, 0]}]),
        ("special", [{"v": 3.0}, {"v": 0.0}]),
        ("bytes", [b"abcdef", b"\xfe\xed"]),
    ],
)
def test_grpc_and_rest_return_equal_predictions(service, server_of, signature, instances):
    url = f"{server_of('texty')}/v1/models/texty"
    expected = predict(url, instances, signature_name=signature)
    assert predict(f"{service}/texty", instances, signature_name=signature) == expected
    assert predict(f"{service}/texty/versions/1", instances, signature_name=signature) == expected


def test_async_predictions_keep_their_order(service):
    async def predict_all():
        async with AsyncClient(f"{service}/texty", batch_size=3) as client:
            texts = ["a" * length for length in range(8)]
            return await asyncio.gather(client.predict(texts), client.predict(texts[::-1]))

    predictions, backwards = asyncio.run(predict_all())
    assert [each["len"] for each in predictions] == list(range(8))
    assert predictions == backwards[::-1]


def test_a_busy_service_is_retried(models):
    with prediction_service(models / "texty" / "1", num_busy=2) as address:
        assert Client(f"{address}/texty").predict(["abc"])[0]["len"] == 3
    with (
        prediction_service(models / "texty" / "1", num_busy=2) as address,
        pytest.raises(InputError, match="returned UNAVAILABLE: still loading"),
    ):
        Client(f"{address}/texty", num_attempts=2).predict(["abc"])


def test_refusals(service):
    for url, message in (
        (f"{service}/texty/versions/2", "returned NOT_FOUND: Servable not found: texty"),
        (f"{service}/texty/labels/canary", "returned NOT_FOUND"),
        (
            f"{service}/texty/versions/{2**63}",
            f"selects version {2**63}; expected at most {2**63 - 1}",
        ),
        (
            f"{service}/v1/models/texty",
            r"is not the URL of a model; expected grpc://HOST:PORT/NAME",
        ),
    ):
        with pytest.raises(InputError, match=message):
            predict(url, ["a"])
    with pytest.raises(InputError, match='Serving signature name: "no" not found in signature def'):
        predict(f"{service}/texty", ["a"], signature_name="no")
    with pytest.raises(InputError, match="returned INVALID_ARGUMENT"):
        predict(f"{service}/texty", [{"a": [1, 2, 3], "b": 7}], signature_name="multi")
    with pytest.raises(InputError, match="Tensor name: mean has no shape information"):
        predict(f"{service}/texty", [{"a": [1, 2]}], signature_name="agg")
    with pytest.raises(InputError, match="returned UNAVAILABLE"):
        Client("grpc://127.0.0.1:1/m", num_attempts=1).predict(["a"])
