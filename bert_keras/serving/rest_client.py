"""Sends predict requests to a model over TF Serving's REST API."""

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.errors import InputError

if TYPE_CHECKING:
    import httpx

_BUSY = (429, 503)
_MAX_WAIT_SECONDS = 60  # upper bound for the Retry-After header of a server


class UnavailableError(InputError):
    """No server responds or it is busy, so another attempt may succeed.

    Args:
        message: The error message.
        seconds: How long to wait before the next attempt, if the server says so.
    """

    def __init__(self, message: str, *, seconds: float | None = None):
        super().__init__(message)
        self.seconds = seconds


def timeout_error(url: str, timeout: float) -> InputError:
    """Return the error for a request that took longer than `timeout` seconds."""
    return InputError(
        f"{url} took more than {timeout:g} seconds; use a Client with a longer timeout or a "
        "smaller batch_size"
    )


class RestConnection:
    """A connection to one model over REST, which stays open until it is closed.

    Args:
        url: http://HOST:PORT/v1/models/NAME, followed by /versions/N or /labels/LABEL to select one
            version.
        timeout: The most seconds that a request may take.
        is_async: Whether the connection is for `predict_async` and `close_async` instead of
            `predict` and `close`.
    """

    def __init__(self, url: str, *, timeout: float, is_async: bool):
        import httpx

        self._url, self._timeout = url, timeout
        # Reading the certificates takes 40 ms, and only https needs them.
        settings: Any = {"timeout": timeout, "verify": url.startswith("https://")}
        client = httpx.AsyncClient if is_async else httpx.Client
        self._client: Any = client(headers={"Content-Type": "application/json"}, **settings)

    def predict(self, body: bytes) -> list:
        """Send a predict request.

        Args:
            body: The JSON body of the request.

        Returns:
            One prediction for each instance.

        Raises:
            UnavailableError: If no server responds or it is busy.
            InputError: If the server rejects the request, with the server's message; if the
                response takes too long; or if it holds no predictions.
        """
        with self._errors():
            response = self._client.post(f"{self._url}:predict", content=body)
        return self._predictions(response)

    async def predict_async(self, body: bytes) -> list:
        """Same as `predict`, but asynchronous."""
        with self._errors():
            response = await self._client.post(f"{self._url}:predict", content=body)
        return self._predictions(response)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    async def close_async(self) -> None:
        """Same as `close`, but asynchronous."""
        await self._client.aclose()

    def _predictions(self, response: "httpx.Response") -> list:
        text = response.content.decode(errors="replace")
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        document = document if isinstance(document, dict) else {}
        if response.status_code != 200:
            reason = document.get("error") or response.reason_phrase
            message = f"{self._url} returned {response.status_code}: {reason}"
            if response.status_code in _BUSY:
                raise UnavailableError(message, seconds=_retry_seconds(response))
            raise InputError(message)
        if not isinstance(document.get("predictions"), list):
            raise InputError(f"{self._url} returned no predictions but {text[:80]!r}")
        return document["predictions"]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the exceptions of httpx to InputErrors."""
        import httpx

        try:
            yield
        except (httpx.InvalidURL, UnicodeError) as error:
            raise InputError(f"{self._url} is not a URL: {error}") from error
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise timeout_error(self._url, self._timeout) from error
        except httpx.DecodingError as error:
            raise InputError(f"{self._url} returned a damaged response: {error}") from error
        except httpx.TransportError as error:
            raise UnavailableError(
                f"no server responds at {self._url} ({str(error) or type(error).__name__}); start "
                "one with bert-keras serve"
            ) from error


def _retry_seconds(response: "httpx.Response") -> float | None:
    """Return the seconds of a Retry-After header; None if it is missing or a date."""
    seconds = response.headers.get("retry-after", "")
    return min(float(seconds), _MAX_WAIT_SECONDS) if seconds.isdecimal() else None
