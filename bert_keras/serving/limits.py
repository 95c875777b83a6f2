"""Defines the limits of a server and reads request bodies within them."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import Request

from bert_keras.errors import check_least, check_range
from bert_keras.fields import document_fields, setting
from bert_keras.serving.rest_api import Refusal

_MIN_RATE = 32 * 2**10  # bytes of a body for each second that it takes beyond `idle_seconds`
_FULL = "The batch scheduling queue to which this task was submitted is full"  # as TF Serving says


@document_fields
@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server; the defaults suit texts and token ids on a few cores.

    Example:

    ```python
    limits = Limits(max_batch_size=8, seconds=5)
    ```
    """

    max_batch_size: int = setting(32, "rows of one session run; at least 1")
    max_requests: int = setting(1024, "requests that are queued or run at the same time")
    max_text_bytes: int = setting(64 * 2**10, "size of one text")
    max_body_bytes: int = setting(16 * 2**20, "size of one request body, after decompression")
    max_total_bytes: int = setting(256 * 2**20, "size of all request bodies in memory together")
    seconds: float = setting(30.0, "time limit of one request")
    idle_seconds: float = setting(5.0, "time after which an idle connection or a slow body ends")
    # Kubernetes waits 30 s from SIGTERM to SIGKILL.
    grace_seconds: float = setting(20.0, "time of running requests when the server stops")

    def __post_init__(self):
        check_least(self, 1, "max_batch_size")
        check_range(self, "a number above 0", "seconds", "idle_seconds")


class BodyReader:
    """Reads request bodies and counts their bytes and the requests in progress."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._running = asyncio.Semaphore(limits.max_requests)
        self._num_bytes = 0

    @contextlib.asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Yields the decompressed body of a request, which counts towards the limits meanwhile."""
        limits, size = self._limits, 0  # `size` is the bytes of this request in memory

        def count_bytes(num_bytes: int) -> None:
            nonlocal size
            size += num_bytes
            self._num_bytes += num_bytes
            if size > (most := limits.max_body_bytes):
                message = f"The request body has more than {most} bytes; send several requests"
                raise Refusal(message, status=413)
            if self._num_bytes > limits.max_total_bytes:
                raise Refusal(_FULL, status=503)

        start, chunks = asyncio.get_running_loop().time(), []
        try:
            try:
                async with asyncio.timeout(min(limits.seconds, limits.idle_seconds)) as timeout:
                    async for chunk in request.stream():
                        count_bytes(len(chunk))
                        chunks.append(chunk)
                        seconds = limits.idle_seconds + size / _MIN_RATE
                        timeout.reschedule(start + min(limits.seconds, seconds))
            except TimeoutError:
                raise Refusal("The request body did not arrive in time", status=408) from None
            body = b"".join(chunks)
            chunks.clear()  # a request keeps its body in memory once
            if "gzip" in request.headers.get("content-encoding", ""):
                body = await asyncio.to_thread(_decompress, body, limits.max_body_bytes)
                count_bytes(len(body))
            if self._running.locked():
                raise Refusal(_FULL, status=503)
            async with self._running:
                yield body
        finally:
            self._num_bytes -= size


def _decompress(body: bytes, max_bytes: int) -> bytes:
    """Decompresses a gzip body up to one byte after `max_bytes`; a damaged one becomes empty."""
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(body, max_bytes + 1)
    except zlib.error:
        return b""  # the JSON parser reports it, as in TF Serving
