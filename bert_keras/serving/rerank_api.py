"""Responds to the requests of the rerank API of Hugging Face's text-embeddings-inference.

The API: https://huggingface.github.io/text-embeddings-inference
"""

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

# Labels, in lower case, that mean that the second text matches the first one.
_RELEVANT = ("1", "label_1", "true", "yes", "relevant", "entailment")
_SCORE_OUTPUTS = {"score", "probabilities"}
_NOT_A_RERANKER = "model is not a re-ranker model"
# Status of a refusal -> status and error_type of the response. Any other status stays.
_ERRORS = {400: (422, "validation"), 413: (413, "validation"), 503: (429, "overloaded")}


class TypedRefusal(Refusal):
    """A request that is rejected with a certain error type.

    Args:
        message: The error message of the response.
        error_type: The error type of the response.
        status: The HTTP status of the response.
    """

    def __init__(self, message: str, *, error_type: str, status: int):
        super().__init__(message, status=status)
        self.error_type = error_type


@dataclass(frozen=True)
class RerankRequest:
    """A parsed request."""

    query: str
    texts: list[str]
    raw_scores: bool  # whether a score is a logit instead of a probability
    return_text: bool  # whether each result contains its text


class RerankApi:
    """`POST /rerank`, for models that compare two texts: a regression or two classes.

    Args:
        versions: The served versions of the model.
        steps: Runs long steps in threads.
    """

    path = "/rerank"

    def __init__(self, versions: Versions, steps: Steps):
        self._versions = versions
        self._steps = steps

    async def respond(self, body: bytes) -> bytes:
        """Return the response body.

        Raises:
            Refusal: If the request is faulty or the model does not score pairs of texts.
        """
        document = await self._steps.read(body, read_document, body)
        request = await self._steps.read(body, read_request, document)
        pairs = await self._steps.read(body, _pairs, request)
        call = Call(self._versions.name, None, None, "rerank")
        with self._versions.serving(call) as (_, servable):
            check_model(servable.model.signatures)
            outputs = await self._steps.outputs(body, servable.batcher, DEFAULT_SIGNATURE, pairs)
        return await self._steps.write(len(request.texts), response_body, request, logits(outputs))

    def error(self, refusal: Refusal) -> tuple[int, bytes]:
        """Return the HTTP status and the body of an error response."""
        status, error_type = _ERRORS.get(refusal.status, (refusal.status, "backend"))
        if isinstance(refusal, TypedRefusal):
            status, error_type = refusal.status, refusal.error_type
        return status, compact_body({"error": str(refusal), "error_type": error_type})


def read_request(document: dict[str, Any]) -> RerankRequest:
    """Check the fields of a request. Like text-embeddings-inference, it ignores unknown fields.

    Args:
        document: The parsed body of the request.

    Raises:
        Refusal: If a field is missing or has a wrong value.
    """
    query, texts = document.get("query"), document.get("texts")
    if not isinstance(query, str):
        raise Refusal(f"`query` is a JSON {type_name(query)}; expected a text")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refusal("`texts` has another type; expected a list of texts")
    if not texts:
        raise TypedRefusal("`texts` cannot be empty", error_type="empty", status=400)
    for name in ("raw_scores", "return_text", "truncate"):
        if not isinstance(document.get(name, False), bool | None):
            raise Refusal(f"`{name}` is a JSON {type_name(document[name])}; expected true or false")
    if document.get("truncate") is False:
        raise Refusal("`truncate` is false, but the model always cuts long pairs; expected true")
    direction = document.get("truncation_direction", "right")
    if not isinstance(direction, str) or direction.lower() != "right":
        raise Refusal("`truncation_direction` has another value; expected right")
    is_raw, has_text = bool(document.get("raw_scores")), bool(document.get("return_text"))
    return RerankRequest(query, texts, is_raw, has_text)


def _pairs(request: RerankRequest) -> dict[str, np.ndarray]:
    texts = np.array([string_bytes(text) for text in request.texts], object)
    return {"text": np.full(len(texts), string_bytes(request.query), object), "text_pair": texts}


def check_model(signatures: Mapping[str, Any]) -> None:
    """Check that the signature `serving_default` compares two texts.

    Args:
        signatures: Maps each signature name to its SignatureDef.

    Raises:
        TypedRefusal: If it has other inputs or outputs.
    """
    signature = signatures.get(DEFAULT_SIGNATURE)
    is_pair = signature is not None and signature.inputs.keys() == {"text", "text_pair"}
    if not is_pair or not signatures[DEFAULT_SIGNATURE].outputs.keys() & _SCORE_OUTPUTS:
        raise _not_a_reranker("expected a regression or a classifier of two texts")


def logits(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the logit of each pair, float64 [num_texts].

    It is the output `score` of a regression. Of two classes, it is the logit of the class whose
    label means that the texts match.

    Args:
        outputs: `score`, float32 [num_texts], or `labels` and `probabilities`, [num_texts, 2].

    Raises:
        TypedRefusal: If a classifier has other classes than two of which one is known to mean that
            the texts match.
        Refusal: If a value is not finite (500).
    """
    if "score" in outputs:
        scores = outputs["score"].astype(np.float64)
    else:
        probabilities = outputs["probabilities"].astype(np.float64)
        labels = [label.decode("utf-8", "replace") for label in outputs["labels"][0]]
        relevant = [at for at, label in enumerate(labels) if label.lower() in _RELEVANT]
        is_softmax = np.allclose(probabilities.sum(axis=1), 1, atol=1e-3)
        if len(labels) != 2 or len(relevant) != 1 or not is_softmax:
            raise _not_a_reranker(
                f"its labels are {', '.join(labels)}; expected two, one of them "
                f"{', '.join(_RELEVANT)}"
            )
        # The smallest float32 keeps the logarithm of a probability of 0 finite.
        logs = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
        scores = logs[:, relevant[0]] - logs[:, 1 - relevant[0]]
    if not np.isfinite(scores).all():
        raise Refusal("The model returned a score that is not a finite number", status=500)
    return scores


def _not_a_reranker(reason: str) -> TypedRefusal:
    return TypedRefusal(f"{_NOT_A_RERANKER}: {reason}", error_type="backend", status=424)


def response_body(request: RerankRequest, scores: np.ndarray) -> bytes:
    """Write the response, the pair with the highest score first.

    Args:
        request: The request.
        scores: The logit of each pair, float64 [num_texts].
    """
    order = np.argsort(-scores, kind="stable")
    if not request.raw_scores:
        scores = np.exp(-np.logaddexp(0, -scores))  # the sigmoid
    values = json_values("score", scores.astype(np.float32))
    results = [
        {
            "index": int(index),
            **({"text": request.texts[index]} if request.return_text else {}),
            "score": values[index],
        }
        for index in order
    ]
    return compact_body(results)
