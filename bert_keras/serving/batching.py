"""Joins the rows of queued requests into batches, runs them in threads and splits the outputs."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from bert_keras.serving.limits import Limits
from bert_keras.serving.model import ServedModel
from bert_keras.serving.rest_api import Refusal, Tensors

_LONG_RUN = 0.05  # seconds; beside a longer run, another thread may start a run
_BYTES_PER_POSITION = 4  # average bytes of text for one subword
# One run takes `max_batch_size` rows of up to 64 positions, and fewer rows if they are longer. Long
# rows already use the whole processor, so a larger batch of them would only add waiting time.
_SHORT_ROW = 64
# A short text does not wait for a long one: texts under 64 positions (about 250 bytes) share runs,
# and a longer text shares runs with texts whose length has the same number of bits.
_MIN_LENGTH_BITS = 6
# A request that cannot be split may have this many times the positions of a normal run.
_MAX_UNSPLIT_FACTOR = 16
RETURN_SHARE = 0.1  # of a run's time: how long the queue then waits for its clients to send again
_ALL = ...  # as an index, all rows


@dataclass(eq=False)
class QueuedRequest:
    """A request whose rows run in one or several parts, the longest rows first."""

    signature_name: str
    tensors: Tensors  # input arrays by name
    parts: deque["_Part"] = field(default_factory=deque)  # parts that are not in the queue yet
    num_open: int = 0  # parts that are not finished
    outputs: list[tuple["_Part", Tensors]] = field(default_factory=list)  # of finished parts
    future: Future = field(default_factory=Future)  # the outputs, or the error of a run

    def finish(self) -> None:
        """Sets the result, in the order of the rows of the request."""
        outputs = _concatenate([outputs for _, outputs in self.outputs])
        if self.outputs[0][0].rows is not _ALL:
            rows = np.argsort(np.concatenate([part.rows for part, _ in self.outputs]))
            outputs = {name: array[rows] for name, array in outputs.items()}
        with contextlib.suppress(InvalidStateError):  # the client has disconnected
            self.future.set_result(outputs)


@dataclass(frozen=True, eq=False)
class _Part:
    request: QueuedRequest
    rows: Any = _ALL  # row indices, or _ALL for a request that cannot be split
    max_rows: int = 0  # the most rows of a run that begins with this part
    key: object = None  # parts with equal keys can share a run; None: the part runs alone

    @property
    def tensors(self) -> Tensors:
        return {name: array[self.rows] for name, array in self.request.tensors.items()}


class Batcher:
    """Runs a model in threads; compatible requests in the queue share a run.

    A request that arrives alone runs at once. While a run takes less than `_LONG_RUN`, new requests
    queue for the next run. After a run, the queue waits briefly for the clients of that run to send
    again, so that they share the next one. If a request has more rows than one run takes, its
    longest rows run first, and its remaining rows run after the other queued requests.

    Args:
        model: The model to run; `close` closes it.
        limits: The limits of a run and of a text.
        on_run: Called after each run with `num_requests` and its `seconds`.
    """

    def __init__(
        self,
        model: ServedModel,
        *,
        limits: Limits,
        on_run: Callable[..., None],
    ):
        self.model = model
        self._limits = limits
        self._max_positions = limits.max_batch_size * _SHORT_ROW  # of one run
        self._on_run = on_run
        self._queue: deque[_Part] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._num_live_threads = model.num_threads
        self._started: dict[int, float] = {}  # thread -> when its present run started
        self._num_expected_clients = 0  # of the last run that have not sent again
        self._wait_deadline = 0.0  # when the queue stops waiting for them
        new_thread = partial(threading.Thread, target=self._work, name="batcher", daemon=True)
        self._threads = [new_thread() for _ in range(model.num_threads)]
        for thread in self._threads:
            thread.start()

    def prepare(self, signature_name: str, tensors: Tensors) -> QueuedRequest:
        """Orders the rows of a request for `submit`. Millions of rows take about a second."""
        request = QueuedRequest(signature_name, tensors)
        lengths = [_lengths(array) for array in tensors.values()]
        longest = max(int(each.max(initial=1)) for each in lengths)
        max_text_bytes = self._limits.max_text_bytes
        has_texts = any(each.dtype == object for each in tensors.values())
        if has_texts and _BYTES_PER_POSITION * (longest - 1) > max_text_bytes:
            raise Refusal(f"A text has more than {max_text_bytes} bytes; divide it", status=413)
        row_counts = {len(each) for each in lengths}
        is_row_wise = self.model.is_row_wise(signature_name, tensors)
        if is_row_wise and len(row_counts) == 1 and max(row_counts):
            self._split(request, np.maximum.reduce(lengths))
        else:
            max_rows = _MAX_UNSPLIT_FACTOR * self._max_positions // longest
            max_rows = max(max_rows, self._limits.max_batch_size)
            if max(row_counts) > max_rows:
                found = f"The request has {max(row_counts)} rows, which run together"
                raise Refusal(f"{found}; expected at most {max_rows} of this length")
            request.parts.append(_Part(request))
        request.num_open = len(request.parts)
        return request

    def _split(self, request: QueuedRequest, lengths: np.ndarray) -> None:
        """Adds the parts of a request with these lengths of its rows."""
        order = np.argsort(-lengths, kind="stable")
        lengths = lengths[order]
        max_rows = np.clip(self._max_positions // lengths, 1, self._limits.max_batch_size).tolist()
        array_specs = [(name, a.dtype, a.shape[1:]) for name, a in sorted(request.tensors.items())]
        start = 0
        while start < len(order):
            length_class = max(int(lengths[start]).bit_length(), _MIN_LENGTH_BITS)
            key = (length_class, request.signature_name, array_specs)
            rows = order[start : start + max_rows[start]]
            request.parts.append(_Part(request, rows, max_rows[start], key))
            start += len(rows)

    def submit(self, request: QueuedRequest) -> Future:
        """Returns a future of the outputs. Cancelling it before the run drops the request."""
        with self._changed:
            if self._closed:
                raise Refusal("The server is shutting down", status=503)
            self._queue.append(request.parts.popleft())
            self._num_expected_clients = max(0, self._num_expected_clients - 1)
            self._changed.notify()
        return request.future

    def close(self) -> None:
        """Refuses new requests and waits 5 seconds for the queued ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = time.monotonic() + 5.0
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while batch := self._next_batch():
            self._run(batch)
            with self._changed:
                end, start = time.monotonic(), self._started.pop(threading.get_ident())
                self._wait_deadline = end + RETURN_SHARE * (end - start)
                self._changed.notify_all()
        with self._changed:
            self._num_live_threads -= 1
            if not self._num_live_threads:
                self.model.close()

    def _next_batch(self) -> list[_Part] | None:
        """Returns rows of the oldest request and of compatible ones; None when closed."""
        with self._changed:
            while self._queue or not self._closed:
                if seconds := self._seconds_to_wait():
                    self._changed.wait(seconds)
                    continue
                first = self._queue.popleft()
                # The future is done if the client has disconnected or an earlier part has failed.
                if not first.request.future.done():
                    self._started[threading.get_ident()] = time.monotonic()
                    self._num_expected_clients = 0
                    return self._batch_with(first)
            return None

    def _seconds_to_wait(self) -> float:
        """Returns how long to wait for requests that could share the next run; needs the lock."""
        if self._closed:
            return 0
        if not self._queue:
            return threading.TIMEOUT_MAX
        # A run that is not long yet may end soon, and the queue can then share the next run.
        starts_at = max((start + _LONG_RUN for start in self._started.values()), default=0.0)
        if self._num_expected_clients > 0 and len(self._queue) < self._limits.max_batch_size:
            starts_at = max(starts_at, self._wait_deadline)
        return max(0, starts_at - time.monotonic())

    def _batch_with(self, first: _Part) -> list[_Part]:
        """Takes parts that can share a run with `first` from the queue; needs the lock."""
        batch, others = [first], deque()
        if first.key is not None:
            num_free = first.max_rows - len(first.rows)
            for part in self._queue:
                fits = part.key == first.key and len(part.rows) <= num_free
                is_chosen = fits and not part.request.future.done()
                num_free -= len(part.rows) if is_chosen else 0
                (batch if is_chosen else others).append(part)
            self._queue = others
        for part in batch:  # the next part of a request waits behind the other requests
            if part.request.parts:
                self._queue.append(part.request.parts.popleft())
                self._changed.notify()
        return batch

    def _run(self, batch: list[_Part]) -> None:
        try:
            self._run_model(batch)
        except Exception as error:  # or the thread would end
            for part in batch:
                if isinstance(error, Refusal) and len(batch) > 1:
                    self._run([part])  # so that no request gets another request's error
                    continue
                with contextlib.suppress(InvalidStateError):  # the client has disconnected
                    part.request.future.set_exception(error)

    def _run_model(self, batch: list[_Part]) -> None:
        tensors, start = _concatenate([part.tensors for part in batch]), time.perf_counter()
        try:
            outputs = self.model.predict(batch[0].request.signature_name, tensors)
        finally:
            self._on_run(num_requests=len(batch), seconds=time.perf_counter() - start)
        stop = 0
        for part in batch:
            part_outputs = outputs
            if part.rows is not _ALL:
                first, stop = stop, stop + len(part.rows)
                part_outputs = {name: array[first:stop] for name, array in outputs.items()}
            with self._changed:  # another thread may run another part of the same request
                part.request.outputs.append((part, part_outputs))
                part.request.num_open -= 1
                is_finished = not part.request.num_open
                self._num_expected_clients += is_finished
            if is_finished:
                part.request.finish()


def _concatenate(tensors: list[Tensors]) -> Tensors:
    if len(tensors) == 1:
        return tensors[0]
    return {name: np.concatenate([each[name] for each in tensors]) for name in tensors[0]}


def _lengths(array: np.ndarray) -> np.ndarray:
    """Estimates the number of positions of each row of an array, int [R]; a scalar is one row."""
    array = np.atleast_1d(array)
    if array.dtype != object:
        return np.full(len(array), max(1, int(np.prod(array.shape[1:]))))
    num_bytes = np.fromiter(map(len, array.flat), int, array.size)
    longest = num_bytes.reshape(array.shape).max(axis=tuple(range(1, array.ndim)), initial=0)
    return longest // _BYTES_PER_POSITION + 1
