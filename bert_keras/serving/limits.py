"""The limits of a server, and the request bodies that it reads within them."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import Request

from bert_keras.errors import InputError
from bert_keras.serving.calls import Refused

_FULL = "The batch scheduling queue to which this task was submitted is full"  # TF Serving's words


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server; the defaults suit texts and token ids on a few cores."""

    max_batch_size: int = 32  # rows of one session run
    max_requests: int = 1024  # that are read, wait or run at one time
    max_body_bytes: int = 16 * 2**20  # of one request, unzipped
    max_total_bytes: int = 256 * 2**20  # of the bodies of all requests together
    seconds: float = 30.0  # of one request, as TF Serving's --rest_api_timeout_in_ms

    def __post_init__(self):
        if self.max_batch_size < 1:
            raise InputError(f"a batch of {self.max_batch_size} rows holds none; give 1 or more")
        if not 0 < self.seconds <= 86400:
            raise InputError(
                f"{self.seconds} seconds are no time limit for a request; give up to a day (86400)"
            )


class Intake:
    """Counts the requests of one server and their bytes, until they are answered."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._num_requests = 0
        self._num_bytes = 0

    @contextlib.asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Read and unzip the body of `request`, which counts until the block ends.

        Raises:
            Refused: where it is too large (413), too slow (408) or one too many (503).
        """
        if self._num_requests >= self._limits.max_requests:
            raise Refused(_FULL, status=503)
        held = 0
        self._num_requests += 1
        try:
            chunks = []
            try:
                async with asyncio.timeout(self._limits.seconds):
                    async for chunk in request.stream():
                        held += len(chunk)
                        self._num_bytes += len(chunk)
                        self._check(held)
                        chunks.append(chunk)
            except TimeoutError:
                sentence = f"The request's body did not come within {self._limits.seconds:g} s"
                raise Refused(sentence, status=408) from None
            body = b"".join(chunks)
            if "gzip" in request.headers.get("content-encoding", ""):
                body = await asyncio.to_thread(_unzipped, body, self._limits.max_body_bytes)
                self._num_bytes += len(body)
                held += len(body)
                self._check(len(body))
            yield body
        finally:
            self._num_requests -= 1
            self._num_bytes -= held

    def _check(self, num_bytes: int) -> None:
        if num_bytes > self._limits.max_body_bytes:
            raise Refused(
                f"The request's body has more than {self._limits.max_body_bytes} bytes; send its "
                "instances in several requests",
                status=413,
            )
        if self._num_bytes > self._limits.max_total_bytes:
            raise Refused(_FULL, status=503)


def _unzipped(body: bytes, max_bytes: int) -> bytes:
    """At most one byte more than `max_bytes`, however much a small body would unfold to."""
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        unzipped = reader.decompress(body, max_bytes + 1)
    except zlib.error:
        return b""  # as TF Serving does: the JSON parser then says that the document is empty
    return unzipped if reader.eof or len(unzipped) > max_bytes else b""
