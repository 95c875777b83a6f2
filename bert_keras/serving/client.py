"""Sends instances to a model on TF Serving or the local server and returns its predictions."""

import base64
import contextlib
import json
import random
import re
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import httpx

from bert_keras.errors import InputError, check_least, counted, quoted

_BUSY = (429, 503)  # HTTP statuses
_URL = re.compile(r"(https?://[^?#]+/v1/models/[^:?#]+?)(?::predict)?/?")


class UnavailableError(InputError):
    """No server responds or it is busy; another attempt may succeed after some seconds."""


class Client(contextlib.AbstractContextManager):
    """Sends instances to one model and keeps the connections open. Threads may share a client;
    a coroutine may await `asyncio.to_thread(client.predict, instances)`.

    Args:
        url: http://HOST:PORT/v1/models/NAME; append /versions/N to select one version.
        timeout: The most seconds that a request may take.
        num_attempts: How often a request is sent, at growing intervals, while no server responds
            or the server reports that it is busy (HTTP status 503 or 429).
        batch_size: The most instances in one request, at least 1.

    Raises:
        InputError: If `url` is not the URL of a model or `batch_size` is less than 1.

    Example:

    ```python
    export("films", "saved_models/films/1")
    with running_server("saved_models/films") as url:
        with Client(f"{url}/v1/models/films") as client:
            print(client.predict(["a good film"]))
    ```
    """

    def __init__(
        self, url: str, *, timeout: float = 60.0, num_attempts: int = 4, batch_size: int = 32
    ):
        self.timeout, self.num_attempts, self.batch_size = timeout, num_attempts, batch_size
        check_least(self, 1, "batch_size")
        match = _URL.fullmatch(url)
        if not match:
            raise InputError(f"the URL is {url}; expected http://HOST:PORT/v1/models/NAME")
        self._url = f"{match[1]}:predict"
        self._http = httpx.Client(
            headers={"Content-Type": "application/json"},
            timeout=timeout,
            verify=url.startswith("https:"),  # reading the certificates takes 40 ms
        )

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
                responds in time; or if an instance has no prediction of its own.
        """
        if isinstance(instances, (str, bytes, dict)):
            raise InputError(f"instances is a {type(instances).__name__}; expected a list")

        def json_value(value: Any) -> object:
            if isinstance(value, bytes):
                return {"b64": base64.b64encode(value).decode()}
            if hasattr(value, "tolist"):  # arrays and scalars of NumPy
                return value.tolist()
            found = type(value).__name__
            raise TypeError(f"an instance contains a {found}, which JSON does not have")

        named = {} if signature_name is None else {"signature_name": signature_name}
        remaining, predictions = iter(instances), []
        while batch := list(islice(remaining, self.batch_size)):
            body = json.dumps({**named, "instances": batch}, default=json_value)
            predictions += self._send(body.encode(), len(batch))
        return predictions

    def _send(self, body: bytes, num_instances: int) -> list:
        """Returns the predictions; while no server is available, it waits longer each time."""
        for attempt in range(1, self.num_attempts):
            try:
                return self._predictions(body, num_instances)
            except UnavailableError:
                time.sleep(min(2**attempt / 8, 8) + random.random() / 4)  # from 0.25 to 8.25 s
        return self._predictions(body, num_instances)

    def _predictions(self, body: bytes, num_instances: int) -> list:
        try:
            response = self._http.post(self._url, content=body)
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise InputError(
                f"{self._url} took more than {self.timeout:g} seconds; use a Client with a longer "
                "timeout or a smaller batch_size"
            ) from error
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            message = (
                f"no server responds at {self._url} ({reason}); start it with bert-keras serve"
            )
            raise UnavailableError(message) from error
        document = {}
        with contextlib.suppress(ValueError):
            document = response.json()
        document = document if isinstance(document, dict) else {}
        if response.status_code != 200:
            reason = document.get("error") or response.reason_phrase
            error = UnavailableError if response.status_code in _BUSY else InputError
            raise error(f"{self._url} returned {response.status_code}: {reason}")
        predictions = document.get("predictions")
        if not isinstance(predictions, list) or len(predictions) != num_instances:
            raise InputError(
                f"{self._url} returned {quoted(response.text)}; expected one prediction for each "
                f"of {counted(num_instances, 'instance')}; select a signature that returns it"
            )
        return predictions

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __exit__(self, *_: object) -> None:
        self.close()
