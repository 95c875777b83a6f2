"""Responds to the requests of TF Serving's REST API for one model."""

from functools import partial

from bert_keras.serving.calls import Call, Refusal
from bert_keras.serving.examples import (
    check_signature,
    labels_and_scores,
    read_examples,
    regression_values,
)
from bert_keras.serving.json_text import read_document
from bert_keras.serving.model import Tensors
from bert_keras.serving.requests import read_predict, read_signature_name
from bert_keras.serving.responses import (
    columns_body,
    error_body,
    json_body,
    metadata_body,
    results_body,
    rows_body,
)
from bert_keras.serving.steps import Steps
from bert_keras.serving.versions import Versions


class RestApi:
    """TF Serving's REST API.

    Args:
        versions: The served versions of the model.
        steps: Runs long steps in threads.
    """

    def __init__(self, versions: Versions, steps: Steps):
        self._versions = versions
        self._steps = steps

    def describe(self, call: Call) -> bytes:
        """Return the response body of a GET request: the states or the signatures of versions.

        Raises:
            Refusal: If no such version is served.
        """
        if call.verb == "status":
            return json_body({"model_version_status": self._versions.statuses(call)})
        with self._versions.serving(call) as (number, servable):
            signatures = servable.model.signatures
            return metadata_body(call.model, version=number, signatures=signatures)

    async def respond(self, call: Call, body: bytes) -> bytes:
        """Return the response body of a POST request: the outputs of a signature.

        Raises:
            Refusal: If the request is faulty or no such version is served.
        """
        document = await self._steps.read(body, read_document, body)
        name = read_signature_name(document)
        tensors = {}
        if call.verb != "predict":
            tensors["inputs"] = await self._steps.read(body, read_examples, document)
        with self._versions.serving(call) as (_, servable):
            signatures = servable.model.signatures
            if call.verb == "predict":
                tensors = await self._steps.read(body, read_predict, document, name, signatures)
            else:
                check_signature(call.verb, signatures, name)
            outputs = await self._steps.outputs(body, servable.batcher, name, tensors)
        if call.verb == "predict":
            write = rows_body if "instances" in document else columns_body
        else:
            write = partial(_results_body, call.verb, len(tensors["inputs"]))
        num_numbers = sum(array.size for array in outputs.values())
        return await self._steps.write(num_numbers, write, outputs)

    def error(self, refusal: Refusal) -> tuple[int, bytes]:
        """Return the HTTP status and the body of an error response."""
        return refusal.status, error_body(str(refusal))


def _results_body(verb: str, num_examples: int, outputs: Tensors) -> bytes:
    results = {"classify": labels_and_scores, "regress": regression_values}[verb]
    return results_body(results(outputs, num_examples=num_examples))
