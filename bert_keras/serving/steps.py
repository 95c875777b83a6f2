"""Runs the steps of a request in the event loop, or in a thread if they would block it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bert_keras.serving.batching import Batcher
from bert_keras.serving.model import Tensors

# A step that would block the event loop for more than about a millisecond runs in a thread.
_MAX_BYTES_INLINE = 8 * 2**10  # size of a request body
_MAX_NUMBERS_INLINE = 1000  # elements of all output arrays

T = TypeVar("T")


class Steps:
    """The threads in which the steps of all requests run."""

    def __init__(self):
        # The threads share Python's global interpreter lock: more than two would not be faster and
        # would keep more documents in memory.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="reader")

    async def read(self, body: bytes, step: Callable[..., T], *values: object) -> T:
        """Return `step(*values)`, a step that reads a request with this body."""
        return await self._run(len(body) <= _MAX_BYTES_INLINE, step, *values)

    async def outputs(
        self, body: bytes, batcher: Batcher, signature_name: str, tensors: Tensors
    ) -> Tensors:
        """Return the outputs of a signature for the request with this body."""
        request = await self.read(body, batcher.prepare, signature_name, tensors)
        return await asyncio.wrap_future(batcher.submit(request))

    async def write(self, num_numbers: int, step: Callable[..., T], *values: object) -> T:
        """Return `step(*values)`, a step that writes a response with `num_numbers` numbers."""
        return await self._run(num_numbers <= _MAX_NUMBERS_INLINE, step, *values)

    async def _run(self, is_short: bool, step: Callable[..., T], *values: object) -> T:
        if is_short:
            return step(*values)
        return await asyncio.get_running_loop().run_in_executor(self._threads, step, *values)

    def close(self) -> None:
        """End the threads; steps that have not begun do not run."""
        self._threads.shutdown(cancel_futures=True)
