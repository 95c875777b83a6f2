"""Runs jobs, each of which leaves one file or folder, in one process or several.

What is there already is not made again, so a run that was killed goes on where it stopped; what a
job leaves does not depend on the others, so any number of processes leave the same.
"""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from typing import Protocol

from bert_keras.errors import InputError
from bert_keras.progress import progress

_LOOK_SECONDS = 0.2  # how often the bar moves
_report: Callable[[int], object]  # in a worker: tells the progress of its job


class Job(Protocol):
    """Makes `output`, whole or not at all, and calls `advance(n)` as its `size` units get done."""

    @property
    def output(self) -> Path: ...

    @property
    def size(self) -> int: ...

    def __call__(self, advance: Callable[[int], object]) -> None: ...


class Workers:
    """`number` processes, or with 1 this process alone; a context manager.

    Processes are started anew, not forked: a script that calls for more than one needs the usual
    `if __name__ == "__main__":`. They end when this process does, however it ends.
    """

    def __init__(self, number: int):
        if number < 1:
            raise InputError(f"workers is {number}; expected at least 1")
        self._executor = None
        if number > 1:
            context = get_context("spawn")
            self._reports = context.SimpleQueue()
            self._executor = ProcessPoolExecutor(
                number, mp_context=context, initializer=_begin, initargs=(self._reports,)
            )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error) -> None:
        if self._executor:
            self._executor.shutdown(cancel_futures=True)

    def run(self, jobs: Iterable[Job], *, stage: str, unit: str) -> None:
        """Runs the jobs whose output is missing; an error in one is raised and ends them all."""
        missing, done = [], 0
        for job in jobs:
            if job.output.exists():
                done += job.size
            else:
                missing.append(job)
        total = done + sum(job.size for job in missing)
        with progress(stage=stage, unit=unit, total=total, initial=done) as bar:
            if self._executor is None:
                for job in missing:
                    _done(job, bar.update)
            else:
                self._run_in_processes(self._executor, missing, bar)

    def _run_in_processes(self, executor: ProcessPoolExecutor, jobs: list[Job], bar) -> None:
        # Ctrl-C is for this process alone: new ones begin, and stay, with what is blocked here.
        before = pthread_sigmask(SIG_BLOCK, {SIGINT})
        try:
            running = {executor.submit(_run, job) for job in jobs}
        finally:
            pthread_sigmask(SIG_SETMASK, before)
        try:
            while running:
                done, running = wait(running, _LOOK_SECONDS, FIRST_COMPLETED)
                while not self._reports.empty():
                    bar.update(self._reports.get())
                for future in done:
                    future.result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker was ended from outside, perhaps for want of memory; run the same "
                "command again, it goes on where it stopped (--workers 1 needs the least)"
            ) from error


def _begin(reports) -> None:
    """In a new worker: it ends when its parent does."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as many processes as there are, one thread
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # who reads a TFDS corpus needs no GPU
    threading.Thread(target=_end_with_parent, daemon=True).start()
    global _report
    _report = reports.put


def _end_with_parent() -> None:
    if parent := parent_process():
        connection.wait([parent.sentinel])
    os._exit(1)


def _run(job: Job) -> None:
    _done(job, _report)


def _done(job: Job, report: Callable[[int], object]) -> None:
    """Runs a job, and reports `job.size` in all whatever it estimated on the way."""
    left = job.size

    def advance(done: int) -> None:
        nonlocal left
        report(min(done, left))
        left -= min(done, left)

    job(advance)
    report(left)
