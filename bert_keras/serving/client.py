"""A client of TF Serving: a model's URL and instances come in, its predictions go out."""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Protocol

from bert_keras.errors import InputError
from bert_keras.serving.addresses import RestAddress, Unavailable

_MOST_BYTES = 1 << 20  # of instances in a request; one that is larger goes alone

_REST = re.compile(
    r"(https?://[^/?#]+(?:/[^?#]+)?/v1/models/[^/:?#]+(?:/versions/[0-9]+|/labels/[^/:?#]+)?)"
    r"(?::predict)?/?"
)


class Address(Protocol):
    """A model's place, and the two kinds of connection to it."""

    def opened(self): ...

    def opened_async(self): ...


def address_of(url: str, *, timeout: float) -> Address:
    """Raises InputError where `url` is none of a model, and where its kind wants an extra."""
    if url.startswith("grpc://"):
        from bert_keras.serving.grpc_addresses import grpc_address_of

        return grpc_address_of(url, timeout=timeout)
    match = _REST.fullmatch(url)
    if not match:
        raise InputError(
            f"{url} is no URL of a model; expected http://HOST:PORT/v1/models/NAME, or "
            "grpc://HOST:PORT/NAME, and behind it /versions/N where one version is meant"
        )
    return RestAddress(match[1], timeout)


class Client:
    """Asks one model, over connections that are kept open. Threads may share it.

    `url`: http://HOST:PORT/v1/models/NAME, or grpc://HOST:PORT/NAME; behind it
    /versions/N or /labels/LABEL where one version is meant. A request carries at most
    `batch_size` instances and may take `timeout` seconds. Where no server answers, or one answers
    that it is busy (503, 429), it is sent again after a while, ever longer, `num_attempts` times
    in all. Raises InputError with the server's sentence, or with why there is none.
    """

    def __init__(
        self, url: str, *, timeout: float = 60.0, num_attempts: int = 4, batch_size: int = 32
    ):
        self._connection = address_of(url, timeout=timeout).opened()
        self._num_attempts, self._batch_size = num_attempts, batch_size

    def predict(self, instances: Iterable, *, signature_name: str | None = None) -> list:
        """One prediction an instance, in order. An instance is a value where the signature has one
        input, else {input name: value}."""
        batches = self.batches(instances, signature_name=signature_name)
        return [prediction for batch in batches for prediction in batch]

    def batches(self, instances: Iterable, *, signature_name: str | None = None) -> Iterator[list]:
        """The same, request by request, as the answers come."""
        import tenacity

        for body, count in _bodies(instances, signature_name, self._batch_size):
            retrying = tenacity.Retrying(**_policy(self._num_attempts))
            yield _counted(retrying(self._connection.ask, body), count)

    def close(self) -> None:
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
        self._connection = address_of(url, timeout=timeout).opened_async()
        self._num_attempts, self._batch_size = num_attempts, batch_size

    async def predict(self, instances: Iterable, *, signature_name: str | None = None) -> list:
        batches = self.batches(instances, signature_name=signature_name)
        return [prediction async for batch in batches for prediction in batch]

    async def batches(
        self, instances: Iterable, *, signature_name: str | None = None
    ) -> AsyncIterator[list]:
        import tenacity

        for body, count in _bodies(instances, signature_name, self._batch_size):
            retrying = tenacity.AsyncRetrying(**_policy(self._num_attempts))
            yield _counted(await retrying(self._connection.ask, body), count)

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def predict(url: str, instances: Iterable, *, signature_name: str | None = None) -> list:
    """One prediction an instance, in order, of a `Client` that lives as long as the call."""
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
        if texts and (len(texts) == batch_size or num_bytes + len(text) > _MOST_BYTES):
            yield _body(named, texts), len(texts)
            texts, num_bytes = [], 0
        texts.append(text)
        num_bytes += len(text)
    if texts:
        yield _body(named, texts), len(texts)


def _body(named: str, texts: list[str]) -> bytes:
    return f'{{{named}"instances": [{", ".join(texts)}]}}'.encode()


def _json_value(value: object) -> object:
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


def _policy(num_attempts: int) -> dict[str, object]:
    import tenacity

    backoff = tenacity.wait_exponential(multiplier=0.25, max=8) + tenacity.wait_random(0, 0.25)

    def wait(state: tenacity.RetryCallState) -> float:
        asked = state.outcome.exception().seconds
        return backoff(state) if asked is None else asked

    return {
        "retry": tenacity.retry_if_exception_type(Unavailable),
        "stop": tenacity.stop_after_attempt(num_attempts),
        "wait": wait,
        "reraise": True,
    }
