"""Joins the rows of queued requests into batches, runs them in threads and splits the outputs."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import numpy as np

from bert_keras.serving.limits import Limits
from bert_keras.serving.model import ServedModel, Tensors
from bert_keras.serving.requests import Refusal

_NUM_THREADS = 2  # while one thread runs a long request, the other runs the remaining requests
_CLOSE_SECONDS = 5.0  # for requests that still run when the server stops
_BYTES_PER_POSITION = 4  # average bytes of text for one subword
# One run takes `max_batch_size` rows of up to 64 positions, and fewer rows if they are longer. Long
# rows already use the whole processor, so a larger batch of them would only add waiting time.
_SHORT_ROW = 64
# A run is padded to its longest row. The rows of a request that are shorter than half of it run
# later, unless the run would have fewer positions than this, which take hardly less time.
_SMALL_RUN = 256
# A request that cannot be split may have this many times the positions of a normal run.
_MAX_RUNS = 16


@dataclass(eq=False)
class QueuedRequest:
    """One request in the queue. Its rows run longest first, in one or several runs."""

    signature_name: str
    tensors: Tensors  # input arrays by name
    # Requests with equal keys can share a run. None: all rows must run together, without others.
    key: object | None = None
    order: np.ndarray = field(default_factory=lambda: np.empty(0, int))  # row numbers
    # For each row in this order, the most rows of a run that begins with it.
    max_rows: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    future: Future = field(default_factory=Future)  # the outputs, or the error of the run
    num_taken: int = 0  # rows that runs have taken
    num_finished: int = 0
    parts: list[tuple[np.ndarray, Tensors]] = field(default_factory=list)  # finished rows, outputs

    @property
    def num_remaining(self) -> int:
        return len(self.order) - self.num_taken

    def take(self, num_rows: int) -> "_Part":
        start, self.num_taken = self.num_taken, self.num_taken + num_rows
        return self, self.order[start : self.num_taken]

    def finish(self) -> None:
        """Sets the outputs, in the order of the rows of the request."""
        rows = np.argsort(np.concatenate([rows for rows, _ in self.parts]))
        outputs = _joined([outputs for _, outputs in self.parts])
        self.set_outputs({name: array[rows] for name, array in outputs.items()})

    def set_outputs(self, outputs: Tensors) -> None:
        with contextlib.suppress(InvalidStateError):  # the client has disconnected
            self.future.set_result(outputs)

    def set_error(self, error: Exception) -> None:
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


_Part = tuple[QueuedRequest, np.ndarray]  # some rows of a request, which one run takes


class Batcher:
    """Runs a model in threads; compatible requests in the queue share a run.

    A thread never waits for a batch to fill, so a single request runs at once. If a request has
    more rows than one run takes, its longest rows run first, and its remaining rows run after the
    other queued requests.

    Args:
        model: The model, which is closed after the last run.
        limits: The most rows of a run and bytes of a text.
        on_run: Called after each run with the arguments `num_requests` and `seconds`.
        num_threads: Number of runs at the same time.
    """

    def __init__(
        self,
        model: ServedModel,
        *,
        limits: Limits,
        on_run: Callable[..., None],
        num_threads: int = _NUM_THREADS,
    ):
        self.model = model
        self._limits = limits
        self._max_positions = limits.max_batch_size * _SHORT_ROW  # of one run
        self._on_run = on_run
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
        """Orders the rows of a request. Millions of rows take about a second.

        Args:
            signature_name: Name of the signature to run.
            tensors: Input arrays by name.

        Raises:
            Refusal: A text is too long, or the request has too many rows for one run and its rows
                cannot be split.
        """
        lengths = [_lengths(array) for array in tensors.values()]
        for array, each in zip(tensors.values(), lengths, strict=True):
            num_bytes = _BYTES_PER_POSITION * (each.max(initial=1) - 1)
            if array.dtype == object and num_bytes > self._limits.max_text_bytes:
                raise Refusal(
                    f"A text has more than {self._limits.max_text_bytes} bytes; divide it",
                    status=413,
                )
        num_rows = {len(each) for each in lengths}
        if (
            num_rows == {0}
            or len(num_rows) > 1
            or not self.model.is_row_wise(signature_name, tensors)
        ):
            longest = max(int(each.max(initial=1)) for each in lengths)
            most = max(_MAX_RUNS * self._max_positions // longest, self._limits.max_batch_size)
            if max(num_rows) > most:
                raise Refusal(
                    f"The request has {max(num_rows)} rows; this signature runs all rows of a "
                    f"request together, at most {most} of this length; send several requests"
                )
            return QueuedRequest(signature_name, tensors)
        order, max_rows = self._longest_first(np.maximum.reduce(lengths))
        return QueuedRequest(
            signature_name, tensors, _key(signature_name, tensors), order, max_rows
        )

    def _longest_first(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns `order` and `max_rows` of a request with these lengths of its rows."""
        order = np.argsort(-lengths, kind="stable")
        lengths = lengths[order]
        num_longer = np.searchsorted(-lengths, -lengths / 2)  # rows of more than half the length
        max_rows = np.maximum(num_longer - np.arange(len(lengths)), _SMALL_RUN // lengths)
        max_rows = np.minimum(max_rows, self._max_positions // lengths)
        return order, np.clip(max_rows, 1, self._limits.max_batch_size)

    def submit(self, request: QueuedRequest) -> Future:
        """Queues a request that `prepare` returned.

        Returns:
            A future of the output arrays by name, or of the `Refusal` that the run raises. If the
            future is cancelled before the request runs, the request is not run.

        Raises:
            Refusal: The batcher is closed (503).
        """
        with self._changed:
            if self._closed:
                raise Refusal("The server is shutting down", status=503)
            self._queue.append(request)
            self._changed.notify()
        return request.future

    def close(self) -> None:
        """Refuses new requests and waits some seconds for the queued ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while batch := self._next_batch():
            self._run(batch)
        with self._changed:
            self._num_running -= 1
            is_last = not self._num_running
        if is_last:
            self.model.close()

    def _next_batch(self) -> list[_Part] | None:
        """Returns rows of the oldest request and of compatible ones; None if closed and empty."""
        with self._changed:
            while self._changed.wait_for(lambda: self._queue or self._closed):
                if not self._queue:
                    return None
                first = self._queue.popleft()
                # The future is done if the client has disconnected or a part of it failed.
                if not first.future.done():
                    return self._batch_with(first)

    def _batch_with(self, first: QueuedRequest) -> list[_Part]:
        if first.key is None:
            return [first.take(0)]
        num_free = first.max_rows[first.num_taken]
        batch = [first.take(min(num_free, first.num_remaining))]
        num_free -= len(batch[0][1])
        others: deque[QueuedRequest] = deque()
        for request in self._queue:
            fits = request.key == first.key and request.num_remaining <= num_free
            if fits and not request.future.done():
                num_free -= request.num_remaining
                batch.append(request.take(request.num_remaining))
            else:
                others.append(request)
        if first.num_remaining:
            others.append(first)
        self._queue = others
        return batch

    def _run(self, batch: list[_Part]) -> None:
        try:
            self._run_model(batch)
        except Exception as error:  # an unexpected one must not end the thread
            if isinstance(error, Refusal) and len(batch) > 1:
                for part in batch:  # one by one, so that no request gets the error of another
                    self._run([part])
                return
            for request, _ in batch:
                request.set_error(error)

    def _run_model(self, batch: list[_Part]) -> None:
        first, start = batch[0][0], time.perf_counter()
        tensors = first.tensors
        if first.key is not None:
            parts = [
                {name: array[rows] for name, array in request.tensors.items()}
                for request, rows in batch
            ]
            tensors = _joined(parts)
        try:
            outputs = self.model.predict(first.signature_name, tensors)
        finally:
            self._on_run(num_requests=len(batch), seconds=time.perf_counter() - start)
        if first.key is None:
            first.set_outputs(outputs)
            return
        stop = 0
        for request, rows in batch:
            start_row, stop = stop, stop + len(rows)
            part = {name: array[start_row:stop] for name, array in outputs.items()}
            with self._changed:  # another thread may run another part of the same request
                request.parts.append((rows, part))
                request.num_finished += len(rows)
                is_finished = request.num_finished == len(request.order)
            if is_finished:
                request.finish()


def _joined(tensors: list[Tensors]) -> Tensors:
    if len(tensors) == 1:
        return tensors[0]
    return {name: np.concatenate([each[name] for each in tensors]) for name in tensors[0]}


def _lengths(array: np.ndarray) -> np.ndarray:
    """Returns the estimated positions of each row of an array, int [R]; a scalar is one row."""
    array = np.atleast_1d(array)
    if array.dtype != object:
        return np.full(len(array), max(1, int(np.prod(array.shape[1:]))))
    num_bytes = np.fromiter(map(len, array.flat), int, array.size)
    longest = num_bytes.reshape(array.shape).max(axis=tuple(range(1, array.ndim)), initial=0)
    return longest // _BYTES_PER_POSITION + 1


def _key(signature_name: str, tensors: Tensors) -> tuple:
    """Returns a key that is equal for requests that may share a batch.

    They have the same signature, dtypes and row shapes, and texts of similar length. A batch is
    padded to its longest text, so a long text would slow down a short one.
    """
    return signature_name, *(
        (name, array.dtype, array.shape[1:], _length_class(array))
        for name, array in sorted(tensors.items())
    )


def _length_class(array: np.ndarray) -> int:
    """Returns the bit length of the longest text's length; texts under 64 bytes share a class."""
    longest = max(map(len, array.flat), default=0) if array.dtype == object else 0
    return max(longest.bit_length(), 6)
