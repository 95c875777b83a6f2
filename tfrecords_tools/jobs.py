"""Runs jobs, each of which writes one file or folder, in one or several processes.

A job whose output exists is skipped, so an interrupted run continues. The output of a job does not
depend on other jobs of its stage, so the number of processes does not change it.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, SIGKILL, pthread_sigmask
from typing import Protocol

from bert_keras.errors import InputError
from bert_keras.progress import progress

_PR_SET_PDEATHSIG = 1  # in linux/prctl.h
_UPDATE_SECONDS = 0.2  # between updates of the progress bar
_report: Callable[[int], object]  # in a worker: reports the progress of its job


class Job(Protocol):
    """Writes `output`, which appears only when complete; reports n of `size` by `advance(n)`."""

    @property
    def output(self) -> Path:
        """The file or folder that the job writes."""
        ...

    @property
    def size(self) -> int:
        """The amount of work in the unit of the stage."""
        ...

    def __call__(self, advance: Callable[[int], object]) -> None: ...


class Workers:
    """Runs jobs in `number` processes, or in this process if `number` is 1; a context manager.

    Processes are spawned, not forked, so a script that uses several needs the usual
    `if __name__ == "__main__":`. They end when this process ends for any reason.
    """

    def __init__(self, number: int):
        if number < 1:
            raise InputError(f"workers is {number}; expected at least 1")
        self._executor = None
        if number > 1:
            context = get_context("spawn")
            self._reports = context.SimpleQueue()
            self._executor = ProcessPoolExecutor(
                number, mp_context=context, initializer=_start_worker, initargs=(self._reports,)
            )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type | None, *error) -> None:
        if self._executor:
            if kind:  # after an error, nothing waits for the running jobs, which may take hours
                for process in [*self._executor._processes.values()]:
                    process.kill()
            self._executor.shutdown(cancel_futures=True)

    def run(self, jobs: Sequence[Job], *, stage: str, unit: str) -> None:
        """Runs the jobs whose output is missing; an error of one job ends all of them.

        Args:
            jobs: The jobs, in any order.
            stage: The label of the progress bar.
            unit: The unit of the sizes of the jobs.

        Raises:
            ChildProcessError: A process was killed.
        """
        missing = [job for job in jobs if not job.output.exists()]
        total = sum(job.size for job in jobs)
        done = total - sum(job.size for job in missing)
        with progress(stage=stage, unit=unit, total=total, initial=done) as bar:
            if self._executor is None:
                for job in missing:
                    _run_job(job, bar.update)
            else:
                self._run_in_processes(self._executor, missing, bar)

    def _run_in_processes(self, executor: ProcessPoolExecutor, jobs: list[Job], bar) -> None:
        # Only this process handles Ctrl-C; new processes inherit the signals that are blocked here.
        old_mask = pthread_sigmask(SIG_BLOCK, {SIGINT})
        try:
            running = {executor.submit(_run_in_worker, job) for job in jobs}
        finally:
            pthread_sigmask(SIG_SETMASK, old_mask)
        try:
            while running:
                done, running = wait(running, _UPDATE_SECONDS, FIRST_COMPLETED)
                while not self._reports.empty():
                    bar.update(self._reports.get())
                for future in done:
                    future.result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process was killed, possibly because memory was exhausted; run the same "
                "command again, which continues a build (--workers 1 needs the least memory)"
            ) from error


def _start_worker(reports) -> None:
    """Prepares a new worker, which ends when its parent ends."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes use all cores already
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # reading a TFDS corpus needs no GPU
    _end_with_parent()
    global _report
    _report = reports.put


def _end_with_parent() -> None:
    """Makes Linux kill this process when its parent ends, whatever it does at that time."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, SIGKILL)
    parent = parent_process()
    if parent is None or not parent.is_alive():  # it ended before the call
        os._exit(1)


def _run_in_worker(job: Job) -> None:
    _run_job(job, _report)


def _run_job(job: Job, report: Callable[[int], object]) -> None:
    """Runs a job and reports exactly `job.size` in all, even if the job reports another sum."""
    remaining = job.size

    def advance(done: int) -> None:
        nonlocal remaining
        report(min(done, remaining))
        remaining -= min(done, remaining)

    job(advance)
    report(remaining)
