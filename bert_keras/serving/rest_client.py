"""Sends predict requests to a model over TF Serving's REST API."""

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.errors import InputError

if TYPE_CHECKING:
    import httpx

_BUSY = (429, 503)
_MAX_WAIT_SECONDS = 60  # that a server may ask for


class Unavailable(InputError):
    """No server answers, or it is busy; another attempt may succeed, after `seconds` if given."""

    def __init__(self, sentence: str, *, seconds: float | None = None):
        super().__init__(sentence)
        self.seconds = seconds


def too_slow(url: str, timeout: float) -> InputError:
    """The error of a request that took longer than `timeout` seconds."""
    return InputError(
        f"{url} took more than {timeout:g} seconds; give it more with timeout, or smaller requests "
        "with batch_size"
    )


class RestConnection:
    """A connection to the model at `url` (http://HOST:PORT/v1/models/NAME), kept open.

    Only the methods of its kind, `is_async` or not, may be called.
    """

    def __init__(self, url: str, *, timeout: float, is_async: bool):
        import httpx

        self._url, self._timeout = url, timeout
        # Certificates, which take 40 ms to read, are read only for https.
        settings: Any = {"timeout": timeout, "verify": url.startswith("https://")}
        client = httpx.AsyncClient if is_async else httpx.Client
        self._client: Any = client(headers={"Content-Type": "application/json"}, **settings)

    def ask(self, body: bytes) -> list:
        """The predictions for the JSON body of a predict request.

        Raises:
            InputError: with the server's sentence, or with why there is none.
        """
        with self._errors():
            response = self._client.post(f"{self._url}:predict", content=body)
        return self._predictions(response)

    async def ask_async(self, body: bytes) -> list:
        """As `ask`."""
        with self._errors():
            response = await self._client.post(f"{self._url}:predict", content=body)
        return self._predictions(response)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    async def close_async(self) -> None:
        """As `close`."""
        await self._client.aclose()

    def _predictions(self, response: "httpx.Response") -> list:
        text = response.content.decode(errors="replace")
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        document = document if isinstance(document, dict) else {}
        if response.status_code != 200:
            sentence = document.get("error") or response.reason_phrase
            message = f"{self._url} answered {response.status_code}: {sentence}"
            if response.status_code in _BUSY:
                raise Unavailable(message, seconds=_retry_seconds(response))
            raise InputError(message)
        if not isinstance(document.get("predictions"), list):
            raise InputError(f"{self._url} answered no predictions but {text[:80]!r}")
        return document["predictions"]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what httpx raises into InputErrors."""
        import httpx

        try:
            yield
        except (httpx.InvalidURL, UnicodeError) as error:
            raise InputError(f"{self._url} is no URL: {error}") from error
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise too_slow(self._url, self._timeout) from error
        except httpx.TransportError as error:
            raise Unavailable(
                f"no server answers at {self._url} ({error or type(error).__name__}); start one "
                "with bert-keras serve"
            ) from error


def _retry_seconds(response: "httpx.Response") -> float | None:
    """Of a Retry-After header; None for one that is a date, or not there."""
    seconds = response.headers.get("retry-after", "")
    return min(float(seconds), _MAX_WAIT_SECONDS) if seconds.isdecimal() else None
