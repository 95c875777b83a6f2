"""Responds to the requests of OpenAI's embeddings API.

The API: https://platform.openai.com/docs/api-reference/embeddings/create
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_keras.serving.calls import Call, Refusal
from bert_keras.serving.json_text import read_document, string_bytes, type_name
from bert_keras.serving.requests import DEFAULT_SIGNATURE
from bert_keras.serving.responses import compact_body, json_values
from bert_keras.serving.steps import Steps
from bert_keras.serving.versions import Versions

_COUNTS = "num_tokens"  # the signature that counts the tokens of a text, and its output
_MAX_TEXTS = 2048  # of a request, as in OpenAI's API
_PARAMETERS = ("input", "model", "dimensions", "encoding_format", "user")
_FORMATS = ("float", "base64")
_SMALLEST_NORM = 1e-12  # keeps a vector of zeros at zero
_UNIT_TOLERANCE = 1e-3  # of the length of an embedding that the model scales to length 1


class ParameterRefusal(Refusal):
    """A request that is rejected because of one parameter.

    Args:
        message: The error message of the response.
        param: Name of the parameter; None if the response does not name it.
        code: OpenAI's error code, if there is one.
        status: The HTTP status of the response.
    """

    def __init__(
        self, message: str, *, param: str | None, code: str | None = None, status: int = 400
    ):
        super().__init__(message, status=status)
        self.param, self.code = param, code


@dataclass(frozen=True)
class EmbeddingsRequest:
    """A parsed request."""

    model: str  # name of the model
    texts: np.ndarray  # [num_texts], bytes objects
    dimensions: int | None  # the number of values to keep of each embedding; None for all of them
    is_base64: bool  # whether to encode the embeddings as base64 of little-endian float32 values


class EmbeddingsApi:
    """`POST /v1/embeddings`, for models with an output `embedding` and a signature `num_tokens`.

    Args:
        versions: The served versions of the model.
        steps: Runs long steps in threads.
    """

    path = "/v1/embeddings"

    def __init__(self, versions: Versions, steps: Steps):
        self._versions = versions
        self._steps = steps

    async def respond(self, body: bytes) -> bytes:
        """Return the response body.

        Raises:
            Refusal: If the request is faulty or the model returns no embeddings.
        """
        document = await self._steps.read(body, read_document, body)
        request = await self._steps.read(body, read_request, document)
        if request.model != self._versions.name:
            raise ParameterRefusal(
                f"The model {request.model!r} does not exist; expected {self._versions.name!r}",
                param=None,
                code="model_not_found",
                status=404,
            )
        call = Call(request.model, None, None, "embeddings")
        with self._versions.serving(call) as (_, servable):
            check_model(servable.model.signatures, request.model)
            outputs, counts = await asyncio.gather(
                *(
                    self._steps.outputs(body, servable.batcher, name, {"text": request.texts})
                    for name in (DEFAULT_SIGNATURE, _COUNTS)
                )
            )
        embeddings, num_tokens = outputs["embedding"], counts[_COUNTS]
        write = self._steps.write
        return await write(embeddings.size, response_body, request, embeddings, num_tokens)

    def error(self, refusal: Refusal) -> tuple[int, bytes]:
        """Return the HTTP status and the body of an error response."""
        error = {
            "message": str(refusal),
            "type": "invalid_request_error" if refusal.status < 500 else "server_error",
            "param": getattr(refusal, "param", None),
            "code": getattr(refusal, "code", None),
        }
        return refusal.status, compact_body({"error": error})


def read_request(document: dict[str, Any]) -> EmbeddingsRequest:
    """Check the parameters of a request. A parameter of the value null counts as missing.

    Args:
        document: The parsed body of the request.

    Raises:
        ParameterRefusal: If a parameter is missing, unknown, or has a wrong value.
    """
    for name in document:
        if name not in _PARAMETERS:
            raise ParameterRefusal(
                f"Unrecognized request argument: {name}; expected {', '.join(_PARAMETERS)}",
                param=name,
            )
    texts = _texts(document.get("input"))
    model, dimensions = document.get("model"), document.get("dimensions")
    encoding = document.get("encoding_format")
    if not isinstance(model, str):
        raise ParameterRefusal(
            f"model is {_shown(model)}; expected the name of the served model", param="model"
        )
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise ParameterRefusal(
            f"dimensions is {_shown(dimensions)}; expected an integer, at least 1",
            param="dimensions",
        )
    if encoding is not None and encoding not in _FORMATS:
        raise ParameterRefusal(
            f"encoding_format is {_shown(encoding)}; expected {' or '.join(_FORMATS)}",
            param="encoding_format",
        )
    return EmbeddingsRequest(model, texts, dimensions, encoding == "base64")


def _texts(value: Any) -> np.ndarray:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise _input_refusal(f"input is {_shown(value)}; expected a text or a list of texts")
    if len(texts) > _MAX_TEXTS:
        raise _input_refusal(f"input has {len(texts):,} texts; expected at most {_MAX_TEXTS:,}")
    for number, text in enumerate(texts):
        if isinstance(text, int | list):
            raise _input_refusal(
                "input contains token ids; expected texts, because the ids of another vocabulary "
                "would give wrong vectors"
            )
        if not isinstance(text, str) or not text:
            raise _input_refusal(f"input[{number}] is {_shown(text)}; expected a text")
    return np.array([string_bytes(text) for text in texts], object)


def _input_refusal(message: str) -> ParameterRefusal:
    return ParameterRefusal(message, param="input")


def _shown(value: object) -> str:
    """Show a short value itself, and only the type of any other value."""
    if value == "" or (isinstance(value, int | float | str) and len(str(value)) <= 40):
        return repr(value)
    return "missing" if value is None else f"a JSON {type_name(value)}"


def check_model(signatures: Mapping[str, Any], model: str) -> None:
    """Check that a model embeds texts and counts their tokens.

    Args:
        signatures: Maps each signature name to its SignatureDef.
        model: Name of the model.

    Raises:
        ParameterRefusal: If one of the two signatures is missing.
    """
    if not has_signature(signatures, DEFAULT_SIGNATURE, "embedding"):
        raise ParameterRefusal(
            f"The model {model!r} returns no embeddings of texts; send its requests to "
            f"/v1/models/{model}:predict",
            param="model",
        )
    if not has_signature(signatures, _COUNTS, _COUNTS):
        raise ParameterRefusal(
            f"The model {model!r} has no signature {_COUNTS}, which counts the tokens of a text; "
            "export a BertSentenceEncoder",
            param="model",
        )


def has_signature(signatures: Mapping[str, Any], name: str, output: str) -> bool:
    """Whether a signature takes `text` alone and has this output.

    Args:
        signatures: Maps each signature name to its SignatureDef.
        name: Name of the signature.
        output: Name of the output.
    """
    signature = signatures.get(name)
    return (
        signature is not None
        and signature.inputs.keys() == {"text"}
        and output in signature.outputs
    )


def shortened(embeddings: np.ndarray, dimensions: int) -> np.ndarray:
    """Return the first values of each embedding, scaled to length 1 if the embedding has length 1.

    Args:
        embeddings: float32 [N, E].
        dimensions: The number of values to keep, up to E.
    """
    first = embeddings[:, :dimensions]
    norms = np.linalg.norm(first, axis=1, keepdims=True)
    is_unit = np.abs(np.linalg.norm(embeddings, axis=1, keepdims=True) - 1) < _UNIT_TOLERANCE
    return first / np.where(is_unit, np.maximum(norms, _SMALLEST_NORM), np.float32(1))


def response_body(
    request: EmbeddingsRequest, embeddings: np.ndarray, num_tokens: np.ndarray
) -> bytes:
    """Write the response.

    Args:
        request: The request.
        embeddings: float32 [num_texts, E].
        num_tokens: The tokens of each text, int32 [num_texts].

    Raises:
        Refusal: If the request asks for more dimensions than E, or if a value is not finite (500).
    """
    size = embeddings.shape[1]
    if request.dimensions is not None:
        if request.dimensions > size:
            raise ParameterRefusal(
                f"dimensions is {request.dimensions}; expected at most {size}, the size of the "
                "model's embeddings",
                param="dimensions",
            )
        embeddings = shortened(embeddings, request.dimensions)
    if not np.isfinite(embeddings).all():
        raise Refusal("The model returned a value that is not a finite number", status=500)
    if request.is_base64:
        rows = [base64.b64encode(row).decode() for row in embeddings.astype("<f4")]
    else:
        rows = json_values("embedding", embeddings)
    data = [
        {"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)
    ]
    total = int(num_tokens.sum())
    usage = {"prompt_tokens": total, "total_tokens": total}
    return compact_body({"object": "list", "data": data, "model": request.model, "usage": usage})
