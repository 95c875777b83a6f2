"""Joins the rows of queued requests into batches, runs them in threads and splits the outputs."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

from bert_keras.serving.calls import Refused
from bert_keras.serving.model import Tensors
from bert_keras.serving.rows import Rows, joined, num_rows, row_length, same_shape_key

# One run takes `max_batch_size` rows of up to 64 positions, and fewer rows if they are longer. Long
# rows already use the whole processor, so a larger batch of them would only add waiting time.
_SHORT_ROW = 64
# A request that cannot be split may have this many times the rows of a normal run.
_MAX_BATCHES_AT_ONCE = 16


@dataclass(eq=False)
class _Task:
    """One request in the queue."""

    signature_name: str
    tensors: Tensors  # input arrays by name
    num_rows: int  # rows of the request
    max_rows: int  # the most rows that one run may take
    # Requests with equal keys can share a run. None: all rows must run together, without others.
    key: object | None
    answer: Future = field(default_factory=Future)  # the outputs, or the error of the run
    next_row: int = 0  # first row that no run has taken yet
    parts: dict[int, Tensors] = field(default_factory=dict)  # finished outputs, by first row

    @property
    def rows_left(self) -> int:
        return self.num_rows - self.next_row

    def take(self, num_rows: int) -> "_Slice":
        start, self.next_row = self.next_row, self.next_row + num_rows
        return _Slice(self, start, num_rows)


@dataclass(eq=False)
class _Slice:
    """Consecutive rows of a request that one run takes."""

    task: _Task
    start: int  # index of the first row
    num_rows: int

    @property
    def tensors(self) -> Tensors:
        rows = slice(self.start, self.start + self.num_rows)
        return {name: array[rows] for name, array in self.task.tensors.items()}


class Batcher:
    """Runs a model in threads; compatible requests in the queue share a run.

    A thread never waits for a batch to fill, so a single request runs at once. If a request has
    more rows than one run takes, its remaining rows run after the other queued requests.

    Args:
        rows: Runs the model and decides which requests can share a run.
        max_batch_size: The most rows of one run.
        num_threads: Number of runs at the same time.
        on_batch: Called once for each batch with the number of requests in it.
        on_end: Called after the last run.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        max_batch_size: int,
        num_threads: int,
        on_batch: Callable[[int], None],
        on_end: Callable[[], None],
    ):
        self._rows = rows
        self._max_batch_size = max_batch_size
        self._on_batch = on_batch
        self._on_end = on_end
        self._waiting: deque[_Task] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._num_working = num_threads
        self._threads = [
            threading.Thread(target=self._work, name="batcher", daemon=True)
            for _ in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, signature_name: str, tensors: Tensors) -> Future:
        """Queue a request.

        Args:
            signature_name: Name of the signature to run.
            tensors: Input arrays by name.

        Returns:
            A future of the output arrays by name, or of the `Refused` that the run raises. If the
            future is cancelled before the request runs, the request is not run.

        Raises:
            Refused: If the request has too many rows for one run and its rows cannot be split, or
                if the batcher is closed (503).
        """
        rows, length = num_rows(tensors) or 0, row_length(tensors)
        at_once = self._max_batch_size * _SHORT_ROW // length
        key = None
        if rows and self._rows.can_join(signature_name, tensors):
            key = (signature_name, same_shape_key(tensors))
        elif rows > (most := max(_MAX_BATCHES_AT_ONCE * at_once, self._max_batch_size)):
            raise Refused(
                f"{rows} rows came; this signature answers all rows of a request together, and of "
                f"rows this long it takes at most {most}; send several requests"
            )
        max_rows = min(max(at_once, 1), self._max_batch_size)
        task = _Task(signature_name, tensors, rows, max_rows, key)
        with self._changed:
            if self._closed:
                raise Refused("The server is shutting down", status=503)
            self._waiting.append(task)
            self._changed.notify()
        return task.answer

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
            self._num_working -= 1
            is_last = not self._num_working
        if is_last:
            self._on_end()

    def _next_batch(self) -> list[_Slice] | None:
        """Rows of the oldest request and of compatible ones; None if closed and empty."""
        with self._changed:
            while self._changed.wait_for(lambda: self._waiting or self._closed):
                if not self._waiting:
                    return None
                first = self._waiting.popleft()
                # The future is done if the client has disconnected or a part of it failed.
                if not first.answer.done():
                    return self._with_others(first)

    def _with_others(self, first: _Task) -> list[_Slice]:
        if first.key is None:
            return [first.take(first.num_rows)]
        batch = [first.take(min(first.max_rows, first.rows_left))]
        rows_free = first.max_rows - batch[0].num_rows
        others: deque[_Task] = deque()
        for task in self._waiting:
            if task.key == first.key and task.rows_left <= rows_free and not task.answer.done():
                rows_free -= task.rows_left
                batch.append(task.take(task.rows_left))
            else:
                others.append(task)
        if first.rows_left:
            others.append(first)
        self._waiting = others
        return batch

    def _run(self, batch: list[_Slice]) -> None:
        try:
            self._answer(batch)
        except Exception as error:  # a bug in this project must not end the thread
            if isinstance(error, Refused) and len(batch) > 1:
                for part in batch:  # one by one, so that no request gets the error of another
                    self._run([part])
                return
            for part in batch:
                _settle(part.task.answer.set_exception, error)

    def _answer(self, batch: list[_Slice]) -> None:
        first, outputs = batch[0].task, None
        if len(batch) > 1 or batch[0].num_rows < first.num_rows:
            tensors = joined([part.tensors for part in batch])
            outputs = self._rows.run_rows(first.signature_name, tensors)
        self._on_batch(len(batch))
        if outputs is not None:
            self._hand_out(batch, outputs)
            return
        for task in (part.task for part in batch):
            if not task.answer.done():
                outputs = self._rows.run_whole(task.signature_name, task.tensors)
                _settle(task.answer.set_result, outputs)

    def _hand_out(self, batch: list[_Slice], outputs: Tensors) -> None:
        at = 0
        for part in batch:
            stop = at + part.num_rows
            rows = {name: array[at:stop] for name, array in outputs.items()}
            at, task = stop, part.task
            with self._changed:  # another thread may run another part of the same request
                task.parts[part.start] = rows
                num_done = sum(num_rows(outputs) or 0 for outputs in task.parts.values())
            if num_done == task.num_rows:
                parts = [task.parts[start] for start in sorted(task.parts)]
                _settle(task.answer.set_result, joined(parts))


def _settle(set_answer: Callable[[Any], None], value: Tensors | Exception) -> None:
    with contextlib.suppress(InvalidStateError):  # the client has disconnected
        set_answer(value)
