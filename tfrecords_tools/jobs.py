"""Runs jobs in one or several processes and keeps a receipt of each, so that a run can continue.

The receipt of a job, OUTPUT.json beside its output, holds what it returned, the SHA-256 of each
file that it wrote, and its own. A job whose receipt fits its files is not run again.
"""

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from typing import Any, Protocol, TypeVar

from tqdm import tqdm

from bert_keras.errors import check
from bert_keras.files import file_sha256, json_object, write_json

Item = TypeVar("Item")
Result = TypeVar("Result")


class Job(Protocol):
    """Writes `output`, which no other job writes, and returns values that JSON can hold."""

    @property
    def output(self) -> Path: ...

    @property
    def size(self) -> int: ...  # the amount of work in the unit of the stage

    def __call__(self) -> dict[str, Any]: ...


class Workers:
    """Maps functions in `number` processes, or in this one if `number` is 1; a context manager.

    Processes are spawned, so a script that uses several needs `if __name__ == "__main__":`. They
    end when this process ends for any reason.
    """

    def __init__(self, number: int):
        check(number >= 1, f"workers is {number}; expected at least 1")
        self._executor = None
        if number > 1:
            context = get_context("spawn")
            parent, self._end_of_work = context.Pipe(duplex=False)
            self._executor = ProcessPoolExecutor(
                number, mp_context=context, initializer=_start_worker, initargs=(parent,)
            )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type | None, *error) -> None:
        if self._executor:
            if kind:  # ends the processes at once: their jobs may take hours
                self._end_of_work.close()
            self._executor.shutdown(cancel_futures=True)
            self._end_of_work.close()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields the results in order; raises ChildProcessError if a process was killed."""
        if self._executor is None:
            yield from map(function, items)
            return
        # Only this process handles Ctrl-C; new processes inherit the signals that are blocked here.
        old_mask = pthread_sigmask(SIG_BLOCK, {SIGINT})
        try:
            results = self._executor.map(function, items)
        finally:
            pthread_sigmask(SIG_SETMASK, old_mask)
        try:
            yield from results
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process was killed, possibly because memory was exhausted; run the same "
                "command again, which continues a build (--workers 1 needs the least memory)"
            ) from error

    def run(self, jobs: Sequence[Job], *, stage: str, unit: str) -> list[dict[str, Any]]:
        """Runs the jobs without a valid receipt and returns the results of all jobs in order.

        The progress bar has the label `stage`, or is not shown if it is "".
        """
        results = [result_of(job.output) for job in jobs]
        missing = [number for number, result in enumerate(results) if result is None]
        total = sum(job.size for job in jobs)
        done = total - sum(jobs[number].size for number in missing)
        bar = tqdm(
            desc=stage, unit=f" {unit}", total=total, initial=done, unit_scale=True,
            disable=not stage or not total,
        )  # fmt: skip
        with bar:
            new_results = self.map(_run_job, [jobs[number] for number in missing])
            for number, result in zip(missing, new_results, strict=True):
                results[number] = result
                bar.update(jobs[number].size)
        return [result for result in results if result is not None]


def result_of(output: Path) -> dict[str, Any] | None:
    """Returns what the job of `output` returned, or None without a receipt that fits the files."""
    try:
        receipt = json_object(_receipt(output))
        result = receipt["result"]
        return result if receipt == _receipt_of(output, result) else None
    except (OSError, ValueError, KeyError):
        return None


def write_receipt(output: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Writes the receipt of a complete output and returns the result."""
    write_json(_receipt(output), _receipt_of(output, result))
    return result


def _run_job(job: Job) -> dict[str, Any]:
    shutil.rmtree(job.output, ignore_errors=True)  # a folder of an interrupted run
    return write_receipt(job.output, job())


def _receipt(output: Path) -> Path:
    return output.with_name(f"{output.name}.json")


def _receipt_of(output: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of the receipt of an output."""
    files = output.iterdir() if output.is_dir() else [output]
    receipt = {"result": result, "files": {path.name: file_sha256(path) for path in sorted(files)}}
    return {**receipt, "sha256": hashlib.sha256(json.dumps(receipt).encode()).hexdigest()}


def _start_worker(parent: Connection) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes use all cores already
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # reading a TFDS corpus needs no GPU

    def end_with_parent() -> None:  # when it closes its end of the pipe or is killed
        with suppress(EOFError, OSError):
            parent.recv_bytes()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
