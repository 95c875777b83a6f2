"""Reads and answers requests of OpenAI's API, platform.openai.com/docs/api-reference/embeddings."""

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bert_keras.serving import rest_api
from bert_keras.serving.rest_api import Refusal

COUNTS = "num_tokens"  # the signature that counts the tokens of a text, and its output

_MAX_TEXTS = 2048  # of a request, as in OpenAI's API
_PARAMETERS = ("input", "model", "dimensions", "encoding_format", "user")


class EmbeddingsRequest(NamedTuple):
    """A parsed request."""

    model: str  # the name of the served model
    texts: np.ndarray  # [num_texts], bytes objects
    dimensions: int | None  # the number of values to keep of each embedding; None for all of them
    is_base64: bool  # whether to encode the embeddings as base64 of little-endian float32 values


def read_request(body: bytes, model: str) -> EmbeddingsRequest:
    """Parses a request to the served `model`. A parameter with the value null counts as missing."""
    document = rest_api.read_document(body)
    texts, dimensions = document.get("input"), document.get("dimensions")
    texts = texts if isinstance(texts, list) else [texts]
    encoding = document.get("encoding_format")

    def check(param: str, is_valid: bool, expected: str) -> None:
        if not is_valid:
            raise Refusal(f"{param}: expected {expected}", param=param)

    are_texts = all(isinstance(each, str) and each for each in texts)
    expected = f"1 to {_MAX_TEXTS} texts that are not empty; token ids are of another vocabulary"
    check("input", are_texts and 1 <= len(texts) <= _MAX_TEXTS, expected)
    is_size = type(dimensions) is int and dimensions >= 1
    check("dimensions", dimensions is None or is_size, "an integer, at least 1")
    check("encoding_format", encoding in (None, "float", "base64"), "float or base64")
    for name in document:
        check(name, name in _PARAMETERS, "no such parameter")
    if (name := document.get("model")) != model:
        message = f"The model {rest_api.as_json(name)} does not exist; expected {model!r}"
        raise Refusal(message, status=404, param="model", code="model_not_found")
    texts = np.array([rest_api.string_bytes(str(text)) for text in texts], object)
    return EmbeddingsRequest(model, texts, dimensions, encoding == "base64")


def check_signatures(model: str, signatures: Mapping[str, Any]) -> None:
    """Raises Refusal unless the signatures of a model embed texts and count their tokens."""
    for name, output in ((rest_api.DEFAULT_SIGNATURE, "embedding"), (COUNTS, COUNTS)):
        signature = signatures.get(name)
        if (
            not signature
            or {*signature["inputs"]} != {"text"}
            or output not in signature["outputs"]
        ):
            message = f"The model {model!r} has no signature {name} from text to {output}"
            raise Refusal(f"{message}; export a BertSentenceEncoder", param="model")


def make_response(
    request: EmbeddingsRequest, embeddings: np.ndarray, num_tokens: np.ndarray
) -> dict[str, Any]:
    """Returns the response for embeddings, float32 [N,E], and numbers of tokens, int32 [N]."""
    if request.dimensions is not None:
        if request.dimensions > embeddings.shape[1]:
            most = f"{embeddings.shape[1]}, the size of the model's embeddings"
            message = f"dimensions is {request.dimensions}; expected at most {most}"
            raise Refusal(message, param="dimensions")
        # An embedding of length 1 keeps that length.
        is_unit = np.abs(np.linalg.norm(embeddings, axis=1, keepdims=True) - 1) < 1e-3
        embeddings = embeddings[:, : request.dimensions]
        norms = np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)
        embeddings = embeddings / np.where(is_unit, norms, np.float32(1))
    if not np.isfinite(embeddings).all():
        raise Refusal("The model returned a value that is not a finite number", status=500)
    if request.is_base64:
        rows = [base64.b64encode(row).decode() for row in embeddings.astype("<f4")]
    else:
        rows = rest_api.array_to_json("embedding", embeddings)
    data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), int(num_tokens.sum()))
    return {"object": "list", "data": data, "model": request.model, "usage": usage}


def make_error(refusal: Refusal) -> dict[str, Any]:
    """Returns the value of "error" in a response."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"message": str(refusal), "type": kind, "param": refusal.param, "code": refusal.code}
