"""Joins the rows of waiting requests into batches, runs them in threads and splits the outputs."""

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

# A run takes max_batch_size rows of up to 64 positions, fewer of longer ones: longer rows fill a
# processor by themselves, and a batch of them would only make each wait for all.
_SHORT_ROW = 64
_MAX_BATCHES_AT_ONCE = 16  # of a request that cannot be cut into smaller runs


@dataclass(eq=False)
class _Task:
    """One request; `key` is None where its rows must run as they came, together and alone."""

    signature_name: str
    tensors: Tensors
    num_rows: int
    max_rows: int  # in one run
    key: object | None
    answer: Future = field(default_factory=Future)
    next_row: int = 0
    parts: dict[int, Tensors] = field(default_factory=dict)  # by first row

    @property
    def rows_left(self) -> int:
        return self.num_rows - self.next_row

    def take(self, num_rows: int) -> "_Slice":
        start, self.next_row = self.next_row, self.next_row + num_rows
        return _Slice(self, start, num_rows)


@dataclass(eq=False)
class _Slice:
    """`num_rows` rows of a task, from row `start`."""

    task: _Task
    start: int
    num_rows: int

    @property
    def tensors(self) -> Tensors:
        rows = slice(self.start, self.start + self.num_rows)
        return {name: array[rows] for name, array in self.task.tensors.items()}


class Batcher:
    """The threads that run a model. Requests that wait and fit together share the next run.

    A batch is never waited for, so a request alone runs at once. Where a request has more rows than
    one run takes, the remaining rows run after the other requests.

    Args:
        rows: Runs the model.
        max_batch_size: Rows of one run.
        num_threads: Runs at one time.
        on_batch: Called for each batch with the number of requests in it.
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

        Returns:
            The outputs to come, or the Refused of a failing run. A request whose future was
            cancelled before it was run is not run.

        Raises:
            Refused: for more rows than run at once where the signature does not answer by rows,
                and once the batcher is closed.
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
        """Take no new requests; wait at most `seconds` for those that are queued."""
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
        """Rows of the oldest request and of those that fit to it; None when no more will come."""
        with self._changed:
            while self._changed.wait_for(lambda: self._waiting or self._closed):
                if not self._waiting:
                    return None
                first = self._waiting.popleft()
                if not first.answer.done():  # else its client has gone, or a part of it failed
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
        except Exception as error:  # a fault of ours must not end a thread that answers
            if isinstance(error, Refused) and len(batch) > 1:
                for part in batch:  # each request alone, so that none gets another's error
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
    with contextlib.suppress(InvalidStateError):  # the client has gone meanwhile
        set_answer(value)
