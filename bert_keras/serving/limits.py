"""Defines the limits of a server and reads request bodies within them."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import Request

from bert_keras.errors import InputError
from bert_keras.serving.calls import Refusal

# The error message of TF Serving.
_FULL = "The batch scheduling queue to which this task was submitted is full"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server; the defaults suit texts and token ids on a few cores.

    Raises:
        InputError: If `max_batch_size` or `seconds` is out of range.

    Example:

    ```python
    limits = Limits(max_batch_size=8, seconds=5)
    ```
    """

    max_batch_size: int = 32  # rows of one session run; at least 1
    max_requests: int = 1024  # requests that the server reads, queues or runs at the same time
    max_body_bytes: int = 16 * 2**20  # size of one request body, after decompression
    max_total_bytes: int = 256 * 2**20  # size of all request bodies in memory together
    # Time limit of one request, up to a day (86400); TF Serving's --rest_api_timeout_in_ms.
    seconds: float = 30.0

    def __post_init__(self):
        if self.max_batch_size < 1:
            raise InputError(f"max_batch_size is {self.max_batch_size}; expected 1 row or more")
        if not 0 < self.seconds <= 86400:
            raise InputError(
                f"the time limit is {self.seconds} s; expected more than 0, at most 86400 (a day)"
            )


class BodyReader:
    """Reads request bodies and counts the requests in progress and their bytes."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._num_requests = 0
        self._num_bytes = 0

    @contextlib.asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Read and decompress the body of a request.

        The request counts towards the limits until the `async with` block ends.

        Yields:
            The bytes of the body.

        Raises:
            Refusal: If the body is too large (413) or arrives too slowly (408), or if the server
                has too many requests or too many bytes of them in memory (503).
        """
        if self._num_requests >= self._limits.max_requests:
            raise Refusal(_FULL, status=503)
        num_read = 0
        self._num_requests += 1
        try:
            chunks = []
            try:
                async with asyncio.timeout(self._limits.seconds):
                    async for chunk in request.stream():
                        num_read += len(chunk)
                        self._num_bytes += len(chunk)
                        self._check(num_read)
                        chunks.append(chunk)
            except TimeoutError:
                message = f"The request body did not arrive within {self._limits.seconds:g} s"
                raise Refusal(message, status=408) from None
            body = b"".join(chunks)
            chunks.clear()  # a request keeps its body in memory once
            if "gzip" in request.headers.get("content-encoding", ""):
                body = await asyncio.to_thread(_decompressed, body, self._limits.max_body_bytes)
                self._num_bytes += len(body)
                num_read += len(body)
                self._check(len(body))
            yield body
        finally:
            self._num_requests -= 1
            self._num_bytes -= num_read

    def _check(self, num_bytes: int) -> None:
        if num_bytes > self._limits.max_body_bytes:
            raise Refusal(
                f"The request body has more than {self._limits.max_body_bytes} bytes; send the "
                "instances in several requests",
                status=413,
            )
        if self._num_bytes > self._limits.max_total_bytes:
            raise Refusal(_FULL, status=503)


def _decompressed(body: bytes, max_bytes: int) -> bytes:
    """Decompress a gzip body, but stop one byte after `max_bytes` to bound the memory use."""
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        decompressed = reader.decompress(body, max_bytes + 1)
    except zlib.error:
        return b""  # as in TF Serving: the JSON parser then reports an empty document
    return decompressed if reader.eof or len(decompressed) > max_bytes else b""
