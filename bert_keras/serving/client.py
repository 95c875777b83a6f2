"""A client of TF Serving: sends instances to a model's URL and returns its predictions."""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.errors import InputError
from bert_keras.serving.rest_client import RestConnection, Unavailable

if TYPE_CHECKING:
    import tenacity

    from bert_keras.serving.grpc_client import GrpcConnection

_MAX_BYTES = 1 << 20  # of instances in a request; one that is larger goes alone

_REST = re.compile(
    r"(https?://[^/?#]+(?:/[^?#]+)?/v1/models/[^/:?#]+(?:/versions/[0-9]+|/labels/[^/:?#]+)?)"
    r"(?::predict)?/?"
)


def _connection_to(
    url: str, *, timeout: float, is_async: bool
) -> "RestConnection | GrpcConnection":
    if url.startswith("grpc://"):
        from bert_keras.serving.grpc_client import GrpcConnection

        return GrpcConnection(url, timeout=timeout, is_async=is_async)
    match = _REST.fullmatch(url)
    if not match:
        raise InputError(
            f"{url} is no URL of a model; expected http://HOST:PORT/v1/models/NAME, or "
            "grpc://HOST:PORT/NAME, and behind it /versions/N where one version is meant"
        )
    return RestConnection(match[1], timeout=timeout, is_async=is_async)


class Client:
    """Sends instances to one model, over connections that are kept open. Threads may share it.

    Args:
        url: http://HOST:PORT/v1/models/NAME, or grpc://HOST:PORT/NAME; after it /versions/N or
            /labels/LABEL where one version is meant.
        timeout: Seconds that a request may take.
        num_attempts: How often a request is sent, at growing intervals, where no server answers or
            one answers that it is busy (503, 429).
        batch_size: Instances in a request at most.

    Raises:
        InputError: with the server's sentence, or with why there is none.
    """

    def __init__(
        self, url: str, *, timeout: float = 60.0, num_attempts: int = 4, batch_size: int = 32
    ):
        self._connection = _connection_to(url, timeout=timeout, is_async=False)
        self._num_attempts, self._batch_size = num_attempts, batch_size

    def predict(self, instances: Iterable, *, signature_name: str | None = None) -> list:
        """Returns one prediction for each instance, in order.

        Args:
            instances: Values if the signature has one input, otherwise dicts {input name: value}.
            signature_name: The signature; None takes `serving_default`.
        """
        batches = self.batches(instances, signature_name=signature_name)
        return [prediction for batch in batches for prediction in batch]

    def batches(self, instances: Iterable, *, signature_name: str | None = None) -> Iterator[list]:
        """As `predict`, request by request, as the answers come."""
        import tenacity

        for body, count in _bodies(instances, signature_name, self._batch_size):
            retrying = tenacity.Retrying(**_retry_policy(self._num_attempts))
            yield _counted(retrying(self._connection.ask, body), count)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """`Client` for asyncio; `predict` may be awaited many times at once."""

    def __init__(
        self, url: str, *, timeout: float = 60.0, num_attempts: int = 4, batch_size: int = 32
    ):
        self._connection = _connection_to(url, timeout=timeout, is_async=True)
        self._num_attempts, self._batch_size = num_attempts, batch_size

    async def predict(self, instances: Iterable, *, signature_name: str | None = None) -> list:
        """As `Client.predict`."""
        batches = self.batches(instances, signature_name=signature_name)
        return [prediction async for batch in batches for prediction in batch]

    async def batches(
        self, instances: Iterable, *, signature_name: str | None = None
    ) -> AsyncIterator[list]:
        """As `Client.batches`."""
        import tenacity

        for body, count in _bodies(instances, signature_name, self._batch_size):
            retrying = tenacity.AsyncRetrying(**_retry_policy(self._num_attempts))
            yield _counted(await retrying(self._connection.ask_async, body), count)

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close_async()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def predict(url: str, instances: Iterable, *, signature_name: str | None = None) -> list:
    """Return one prediction an instance, by a `Client` that lives as long as the call."""
    with Client(url) as client:
        return client.predict(instances, signature_name=signature_name)


def _bodies(
    instances: Iterable, signature_name: str | None, batch_size: int
) -> Iterator[tuple[bytes, int]]:
    """JSON bodies of predict requests, each with its number of instances."""
    if isinstance(instances, (str, bytes, dict)):
        raise InputError(f"instances came as {type(instances).__name__}; expected a list of them")
    named = "" if signature_name is None else f'"signature_name": {json.dumps(signature_name)}, '
    texts: list[str] = []
    num_bytes = 0
    for instance in instances:
        text = json.dumps(instance, default=_json_value)
        if texts and (len(texts) == batch_size or num_bytes + len(text) > _MAX_BYTES):
            yield _body(named, texts), len(texts)
            texts, num_bytes = [], 0
        texts.append(text)
        num_bytes += len(text)
    if texts:
        yield _body(named, texts), len(texts)


def _body(named: str, texts: list[str]) -> bytes:
    return f'{{{named}"instances": [{", ".join(texts)}]}}'.encode()


def _json_value(value: Any) -> object:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        return value.tolist()
    raise InputError(f"an instance holds a {type(value).__name__}; expected what JSON can hold")


def _counted(predictions: list, count: int) -> list:
    if len(predictions) != count:
        raise InputError(
            f"{len(predictions)} predictions came for {count} instances; ask a signature that "
            "answers each instance"
        )
    return predictions


def _retry_policy(num_attempts: int) -> dict[str, Any]:
    import tenacity

    backoff = tenacity.wait_exponential(multiplier=0.25, max=8) + tenacity.wait_random(0, 0.25)

    def wait(state: "tenacity.RetryCallState") -> float:
        error = state.outcome and state.outcome.exception()
        if isinstance(error, Unavailable) and error.seconds is not None:
            return error.seconds
        return backoff(state)

    return {
        "retry": tenacity.retry_if_exception_type(Unavailable),
        "stop": tenacity.stop_after_attempt(num_attempts),
        "wait": wait,
        "reraise": True,
    }
