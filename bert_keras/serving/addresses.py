"""A model's URL comes in; what sends JSON bodies of predict there, and reads the answers, goes out.

Each connection has `ask(body) -> predictions`, over REST here and over gRPC in grpc_addresses.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from bert_keras.errors import InputError

_BUSY = (429, 503)
_LONGEST_WAIT = 60  # seconds that a server may ask for


class Unavailable(InputError):
    """No server answers, or a busy one: another attempt may do better, in `seconds` if it says."""

    def __init__(self, sentence: str, *, seconds: float | None = None):
        super().__init__(sentence)
        self.seconds = seconds


@dataclass(frozen=True)
class RestAddress:
    url: str
    timeout: float

    def opened(self) -> "RestConnection":
        return RestConnection(self)

    def opened_async(self) -> "AsyncRestConnection":
        return AsyncRestConnection(self)

    def settings(self) -> dict[str, object]:
        """Of httpx. Certificates, which take 40 ms to read, are read where they are needed."""
        return {"timeout": self.timeout, "verify": self.url.startswith("https://")}

    def request(self, body: bytes) -> dict[str, object]:
        headers = {"Content-Type": "application/json"}
        return {"url": f"{self.url}:predict", "content": body, "headers": headers}

    def predictions(self, response) -> list:
        """Of an httpx.Response; raises InputError with the sentence of one that is an error."""
        text = response.content.decode(errors="replace")
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        document = document if isinstance(document, dict) else {}
        if response.status_code != 200:
            sentence = document.get("error") or response.reason_phrase
            told = f"{self.url} answered {response.status_code}: {sentence}"
            if response.status_code in _BUSY:
                raise Unavailable(told, seconds=_seconds(response.headers.get("retry-after", "")))
            raise InputError(told)
        if not isinstance(document.get("predictions"), list):
            raise InputError(f"{self.url} answered no predictions but {text[:80]!r}")
        return document["predictions"]

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """What httpx raises, as InputErrors."""
        import httpx

        try:
            yield
        except (httpx.InvalidURL, UnicodeError) as error:
            raise InputError(f"{self.url} is no URL: {error}") from error
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise InputError(
                f"{self.url} took more than {self.timeout:g} seconds; give it more with timeout, "
                "or smaller requests with batch_size"
            ) from error
        except httpx.TransportError as error:
            raise Unavailable(
                f"no server answers at {self.url} ({error or type(error).__name__}); start one "
                "with bert-keras serve"
            ) from error


class RestConnection:
    def __init__(self, address: RestAddress):
        import httpx

        self._address = address
        self._http = httpx.Client(**address.settings())

    def ask(self, body: bytes) -> list:
        with self._address.errors():
            response = self._http.post(**self._address.request(body))
        return self._address.predictions(response)

    def close(self) -> None:
        self._http.close()


class AsyncRestConnection:
    def __init__(self, address: RestAddress):
        import httpx

        self._address = address
        self._http = httpx.AsyncClient(**address.settings())

    async def ask(self, body: bytes) -> list:
        with self._address.errors():
            response = await self._http.post(**self._address.request(body))
        return self._address.predictions(response)

    async def close(self) -> None:
        await self._http.aclose()


def _seconds(retry_after: str) -> float | None:
    """Of a Retry-After header; None for one that is a date, or not there."""
    return min(float(retry_after), _LONGEST_WAIT) if retry_after.isdecimal() else None
