"""Joins the rows of queued requests into batches, runs them in threads and splits the outputs."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bert_keras.serving.calls import Refusal
from bert_keras.serving.model import Tensors
from bert_keras.serving.rows import RowModel, batch_key, joined, num_rows, row_length, row_lengths

# One run takes `max_batch_size` rows of up to 64 positions, and fewer rows if they are longer. Long
# rows already use the whole processor, so a larger batch of them would only add waiting time.
_SHORT_ROW = 64
# A run is padded to its longest row. The rows of a request that are shorter than half of it run
# later, unless the run would have fewer positions than this, which take hardly less time.
_SMALL_RUN = 256
# A request that cannot be split may have this many times the rows of a normal run.
_MAX_BATCHES_PER_REQUEST = 16


@dataclass(eq=False)
class QueuedRequest:
    """One request in the queue."""

    signature_name: str
    tensors: Tensors  # input arrays by name
    num_rows: int  # rows of the request
    order: np.ndarray | None  # the row numbers, longest row first; None: one run takes all rows
    # For each row in this order, the most rows of a run that begins with it; empty without a key.
    max_rows: np.ndarray
    # Requests with equal keys can share a run. None: all rows must run together, without others.
    key: object | None
    future: Future = field(default_factory=Future)  # the outputs, or the error of the run
    next_row: int = 0  # first row that no run has taken yet
    parts: dict[int, Tensors] = field(default_factory=dict)  # finished outputs, by first row
    num_finished: int = 0  # rows of `parts`

    @property
    def num_remaining(self) -> int:
        return self.num_rows - self.next_row

    def take(self, num_rows: int) -> "_Slice":
        start, self.next_row = self.next_row, self.next_row + num_rows
        return _Slice(self, start, num_rows)

    def finish(self, outputs: Tensors) -> None:
        """Sets the outputs, whose rows are in the order in which they ran."""
        if self.order is not None:
            rows = np.argsort(self.order)
            outputs = {name: array[rows] for name, array in outputs.items()}
        _set_future(self.future.set_result, outputs)


@dataclass(eq=False)
class _Slice:
    """Consecutive rows of a request that one run takes."""

    request: QueuedRequest
    start: int  # index of the first row
    num_rows: int

    @property
    def tensors(self) -> Tensors:
        rows, order = slice(self.start, self.start + self.num_rows), self.request.order
        tensors = self.request.tensors.items()
        return {name: array[rows if order is None else order[rows]] for name, array in tensors}


class Batcher:
    """Runs a model in threads; compatible requests in the queue share a run.

    A thread never waits for a batch to fill, so a single request runs at once. If a request has
    more rows than one run takes, its longest rows run first, and its remaining rows run after the
    other queued requests.

    Args:
        rows: Runs the model and decides which requests can share a run.
        max_batch_size: The most rows of one run; at least two until the rows are checked.
        num_threads: Number of runs at the same time.
        on_batch: Called once for each batch with the number of requests in it.
        on_end: Called after the last run.
    """

    def __init__(
        self,
        rows: RowModel,
        *,
        max_batch_size: int,
        num_threads: int,
        on_batch: Callable[[int], None],
        on_end: Callable[[], None],
    ):
        self._rows = rows
        self._max_batch_size = max_batch_size
        self._max_positions = max_batch_size * _SHORT_ROW  # of one run
        self._on_batch = on_batch
        self._on_end = on_end
        self._queue: deque[QueuedRequest] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._num_running = num_threads
        self._threads = [
            threading.Thread(target=self._work, name="batcher", daemon=True)
            for _ in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def prepare(self, signature_name: str, tensors: Tensors) -> QueuedRequest:
        """Order the rows of a request. Millions of rows take about a second.

        Args:
            signature_name: Name of the signature to run.
            tensors: Input arrays by name.

        Returns:
            The request for `submit`.

        Raises:
            Refusal: If the request has too many rows for one run and its rows cannot be split.
        """
        rows = num_rows(tensors) or 0
        key, order, max_rows = None, None, np.empty(0, int)
        if rows and self._rows.can_join(signature_name, tensors):
            key = (signature_name, batch_key(tensors))
            order, max_rows = self._longest_first(row_lengths(tensors))
        else:
            max_joint = _MAX_BATCHES_PER_REQUEST * self._max_positions // row_length(tensors)
            max_joint = max(max_joint, self._max_batch_size)
            if rows > max_joint:
                raise Refusal(
                    f"The request has {rows} rows; this signature runs all rows of a request "
                    f"together, at most {max_joint} of this length; send several requests"
                )
        return QueuedRequest(signature_name, tensors, rows, order, max_rows, key)

    def submit(self, request: QueuedRequest) -> Future:
        """Queue a request that `prepare` returned.

        Returns:
            A future of the output arrays by name, or of the `Refusal` that the run raises. If
            the future is cancelled before the request runs, the request is not run.

        Raises:
            Refusal: If the batcher is closed (503).
        """
        with self._changed:
            if self._closed:
                raise Refusal("The server is shutting down", status=503)
            self._queue.append(request)
            self._changed.notify()
        return request.future

    def _longest_first(self, lengths: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Returns `order` and `max_rows` of a request with these lengths of its rows."""
        order = np.argsort(-lengths, kind="stable")
        lengths = lengths[order]
        num_longer = np.searchsorted(-lengths, -lengths / 2)  # rows of more than half the length
        max_rows = np.maximum(num_longer - np.arange(len(lengths)), _SMALL_RUN // lengths)
        max_rows = np.minimum(max_rows, self._max_positions // lengths)
        max_rows = np.clip(max_rows, 1, self._max_batch_size)
        return (order if max_rows[0] < len(order) else None), max_rows

    def close(self, *, seconds: float) -> None:
        """Refuse new requests and wait at most `seconds` for the queued ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while batch := self._next_batch():
            self._run(batch)
        with self._changed:
            self._num_running -= 1
            is_last = not self._num_running
        if is_last:
            self._on_end()

    def _next_batch(self) -> list[_Slice] | None:
        """Rows of the oldest request and of compatible ones; None if closed and empty."""
        with self._changed:
            while self._changed.wait_for(lambda: self._queue or self._closed):
                if not self._queue:
                    return None
                first = self._queue.popleft()
                # The future is done if the client has disconnected or a part of it failed.
                if not first.future.done():
                    return self._batch_with(first)

    def _batch_with(self, first: QueuedRequest) -> list[_Slice]:
        if first.key is None:
            return [first.take(first.num_rows)]
        # A single row does not show whether it depends on the others of its request.
        least = 1 if self._rows.is_checked(first.signature_name) else 2
        num_free = max(first.max_rows[first.next_row], least)
        batch = [first.take(min(num_free, first.num_remaining))]
        num_free -= batch[0].num_rows
        others: deque[QueuedRequest] = deque()
        for request in self._queue:
            fits = request.key == first.key and request.num_remaining <= num_free
            if first.order is None and fits and not request.future.done():
                num_free -= request.num_remaining
                batch.append(request.take(request.num_remaining))
            else:
                others.append(request)
        if first.num_remaining:
            others.append(first)
        self._queue = others
        return batch

    def _run(self, batch: list[_Slice]) -> None:
        try:
            self._run_model(batch)
        except Exception as error:  # a bug in this project must not end the thread
            if isinstance(error, Refusal) and len(batch) > 1:
                for part in batch:  # one by one, so that no request gets the error of another
                    self._run([part])
                return
            for part in batch:
                _set_future(part.request.future.set_exception, error)

    def _run_model(self, batch: list[_Slice]) -> None:
        first, outputs = batch[0].request, None
        if len(batch) > 1 or batch[0].num_rows < first.num_rows:
            tensors = joined([part.tensors for part in batch])
            outputs = self._rows.run_batch(first.signature_name, tensors)
        self._on_batch(len(batch))
        if outputs is not None:
            self._distribute(batch, outputs)
            return
        for request in (part.request for part in batch):
            if not request.future.done():
                outputs = self._rows.run_request(request.signature_name, request.tensors)
                _set_future(request.future.set_result, outputs)

    def _distribute(self, batch: list[_Slice], outputs: Tensors) -> None:
        first_row = 0
        for part in batch:
            stop = first_row + part.num_rows
            rows = {name: array[first_row:stop] for name, array in outputs.items()}
            first_row, request = stop, part.request
            with self._changed:  # another thread may run another part of the same request
                request.parts[part.start] = rows
                request.num_finished += part.num_rows
                is_finished = request.num_finished == request.num_rows
            if is_finished:
                parts = [request.parts[start] for start in sorted(request.parts)]
                request.finish(joined(parts))


def _set_future(set_value: Callable[[Any], None], value: Tensors | Exception) -> None:
    with contextlib.suppress(InvalidStateError):  # the client has disconnected
        set_value(value)
