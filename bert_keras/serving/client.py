"""Sends instances to a model on TF Serving or the local server and returns its predictions."""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.errors import InputError, check_least, counted
from bert_keras.serving.rest_client import RestConnection, UnavailableError

if TYPE_CHECKING:
    import tenacity

    from bert_keras.serving.grpc_client import GrpcConnection

_MAX_BYTES = 1 << 20  # of the instances in a request; a larger instance is sent alone
_MAX_SECONDS = 86_400  # longest timeout, a day, as for `Limits`

_REST = re.compile(
    r"(https?://[^/?#]+(?:/[^?#]+)?/v1/models/[^/:?#]+(?:/versions/[0-9]+|/labels/[^/:?#]+)?)"
    r"(?::predict)?/?"
)


def _connection_to(
    url: str, *, timeout: float, is_async: bool
) -> "RestConnection | GrpcConnection":
    if not 0 < timeout <= _MAX_SECONDS:
        raise InputError(
            f"timeout is {timeout}; expected more than 0 seconds, at most {_MAX_SECONDS} (a day)"
        )
    if url.startswith("grpc://"):
        from bert_keras.serving.grpc_client import GrpcConnection

        return GrpcConnection(url, timeout=timeout, is_async=is_async)
    match = _REST.fullmatch(url)
    if not match:
        raise InputError(
            f"{url} is not the URL of a model; expected http://HOST:PORT/v1/models/NAME or "
            "grpc://HOST:PORT/NAME, followed by /versions/N or /labels/LABEL to select one version"
        )
    return RestConnection(match[1], timeout=timeout, is_async=is_async)


class Client:
    """Sends instances to one model and keeps the connections open. Threads may share a client.

    Args:
        url: http://HOST:PORT/v1/models/NAME, or grpc://HOST:PORT/NAME. To select one version,
            append /versions/N or /labels/LABEL.
        timeout: The most seconds that a request may take, up to a day (86400).
        num_attempts: How often a request is sent, at growing intervals, while no server responds
            or the server reports that it is busy (HTTP status 503 or 429).
        batch_size: The most instances in one request.

    Raises:
        InputError: If `url` is not the URL of a model, if `num_attempts` or `batch_size` is less
            than 1, or if `timeout` is out of range.

    Example:

    ```python
    export("film-critic", "saved_models/film-critic/1")
    with running_server("saved_models/film-critic") as url:
        with Client(f"{url}/v1/models/film-critic") as client:
            print(client.predict(["a good film"]))
    ```
    """

    def __init__(
        self, url: str, *, timeout: float = 60.0, num_attempts: int = 4, batch_size: int = 32
    ):
        self.num_attempts, self.batch_size = num_attempts, batch_size
        check_least(self, 1, "num_attempts", "batch_size")
        self._connection = _connection_to(url, timeout=timeout, is_async=False)

    def predict(self, instances: Iterable, *, signature_name: str | None = None) -> list:
        """Return one prediction for each instance, in the order of the instances.

        Args:
            instances: If the signature has one input, each instance is a value; otherwise it is a
                dict {input name: value}. Bytes and NumPy arrays are converted to JSON.
            signature_name: Name of the signature; None for serving_default.

        Returns:
            A list of predictions. A prediction is a value if the signature has one output;
            otherwise it is a dict {output name: value}.

        Raises:
            InputError: If the server rejects a request, with the server's message; if no server
                responds in time; or if the number of predictions differs from that of instances.
        """
        batches = self.batches(instances, signature_name=signature_name)
        return [prediction for batch in batches for prediction in batch]

    def batches(self, instances: Iterable, *, signature_name: str | None = None) -> Iterator[list]:
        """Like `predict`, but yields the predictions of each request when its response arrives."""
        import tenacity

        for body, count in _bodies(instances, signature_name, self.batch_size):
            retrying = tenacity.Retrying(**_retry_policy(self.num_attempts))
            yield _check_count(retrying(self._connection.predict, body), count)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """Same as `Client`, with the same arguments, but for asyncio.

    Many calls of `predict` may be awaited at the same time.

    Example:

    ```python
    export("film-critic", "saved_models/film-critic/1")


    async def predictions(url):
        async with AsyncClient(f"{url}/v1/models/film-critic") as client:
            return await client.predict(["a good film"])


    with running_server("saved_models/film-critic") as url:
        print(asyncio.run(predictions(url)))
    ```
    """

    def __init__(
        self, url: str, *, timeout: float = 60.0, num_attempts: int = 4, batch_size: int = 32
    ):
        self.num_attempts, self.batch_size = num_attempts, batch_size
        check_least(self, 1, "num_attempts", "batch_size")
        self._connection = _connection_to(url, timeout=timeout, is_async=True)

    async def predict(self, instances: Iterable, *, signature_name: str | None = None) -> list:
        """Same as `Client.predict`, but asynchronous."""
        batches = self.batches(instances, signature_name=signature_name)
        return [prediction async for batch in batches for prediction in batch]

    async def batches(
        self, instances: Iterable, *, signature_name: str | None = None
    ) -> AsyncIterator[list]:
        """Same as `Client.batches`, but asynchronous."""
        import tenacity

        for body, count in _bodies(instances, signature_name, self.batch_size):
            retrying = tenacity.AsyncRetrying(**_retry_policy(self.num_attempts))
            yield _check_count(await retrying(self._connection.predict_async, body), count)

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close_async()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def predict(url: str, instances: Iterable, *, signature_name: str | None = None) -> list:
    """Return one prediction for each instance.

    Opens a `Client` for this call alone. To send several requests, create a `Client` and reuse its
    connections.

    Args:
        url: URL of a model, as for `Client`.
        instances: The inputs, as for `Client.predict`.
        signature_name: Name of the signature; None for serving_default.

    Returns:
        A list of predictions, as from `Client.predict`.

    Raises:
        InputError: As `Client` and `Client.predict` do.
    """
    with Client(url) as client:
        return client.predict(instances, signature_name=signature_name)


def _bodies(
    instances: Iterable, signature_name: str | None, batch_size: int
) -> Iterator[tuple[bytes, int]]:
    """Yield the JSON bodies of predict requests, each with its number of instances."""
    if isinstance(instances, (str, bytes, dict)):
        raise InputError(f"instances is a {type(instances).__name__}; expected a list of instances")
    prefix = "" if signature_name is None else f'"signature_name": {json.dumps(signature_name)}, '
    texts: list[str] = []
    num_bytes = 0
    for instance in instances:
        text = json.dumps(instance, default=_json_value)
        if texts and (len(texts) == batch_size or num_bytes + len(text) > _MAX_BYTES):
            yield _body(prefix, texts), len(texts)
            texts, num_bytes = [], 0
        texts.append(text)
        num_bytes += len(text)
    if texts:
        yield _body(prefix, texts), len(texts)


def _body(prefix: str, texts: list[str]) -> bytes:
    return f'{{{prefix}"instances": [{", ".join(texts)}]}}'.encode()


def _json_value(value: Any) -> object:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        return value.tolist()
    raise InputError(
        f"an instance contains a {type(value).__name__}; expected a type that JSON can represent"
    )


def _check_count(predictions: list, count: int) -> list:
    if len(predictions) != count:
        raise InputError(
            f"the server returned {counted(len(predictions), 'prediction')} for "
            f"{counted(count, 'instance')}; select a signature with one prediction for each "
            "instance"
        )
    return predictions


def _retry_policy(num_attempts: int) -> dict[str, Any]:
    import tenacity

    backoff = tenacity.wait_exponential(multiplier=0.25, max=8) + tenacity.wait_random(0, 0.25)

    def wait(state: "tenacity.RetryCallState") -> float:
        error = state.outcome and state.outcome.exception()
        if isinstance(error, UnavailableError) and error.seconds is not None:
            return error.seconds
        return backoff(state)

    return {
        "retry": tenacity.retry_if_exception_type(UnavailableError),
        "stop": tenacity.stop_after_attempt(num_attempts),
        "wait": wait,
        "reraise": True,
    }
