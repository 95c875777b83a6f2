import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from bert_keras.errors import InputError
from bert_keras.files import atomic_file
from tfrecords_tools.jobs import Workers


@pytest.fixture(autouse=True)
def new_processes_find_this_file(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


@dataclass(frozen=True)
class Write:
    output: Path
    size: int = 2
    trouble: str = ""

    def __call__(self, advance):
        if self.trouble == "input":
            raise InputError(f"{self.output.name} is wrong")
        if self.trouble == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "busy":  # for hours, without another thread of Python
            self.output.with_suffix(".process").write_text(str(os.getpid()))
            re.match("(a+)+$", "a" * 60 + "b")
        if self.trouble == "Ctrl-C":
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.SIGINT in signal.sigpending()
        with atomic_file(self.output) as part:
            part.write_text(str(os.getpid()))
        advance(self.size)


@pytest.mark.parametrize("number", [1, 2])
def test_only_jobs_without_output_run(tmp_path, number):
    jobs = [Write(tmp_path / str(each)) for each in range(5)]
    (tmp_path / "3").write_text("old")
    with Workers(number) as workers:
        workers.run(jobs, stage="write", unit="file")
        workers.run([Write(tmp_path / "later")], stage="write", unit="file")
    contents = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(contents) == ["0", "1", "2", "3", "4", "later"]
    assert contents.pop("3") == "old"
    assert (set(contents.values()) == {str(os.getpid())}) == (number == 1)


@dataclass(frozen=True)
class Estimate(Write):
    estimates: tuple[int, ...] = ()

    def __call__(self, advance):
        super().__call__(lambda _: None)
        for estimate in self.estimates:
            advance(estimate)


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_reported_progress_adds_up_to_the_size(tmp_path, monkeypatch, number):
    updates = []

    @contextlib.contextmanager
    def progress(**_):
        yield SimpleNamespace(update=updates.append)

    monkeypatch.setattr("tfrecords_tools.jobs.progress", progress)
    jobs = [
        Estimate(tmp_path / str(n), size=6, estimates=each)
        for n, each in enumerate([(), (2, 3), (4, 4, 4)])
    ]
    with Workers(number) as workers:
        workers.run(jobs, stage="write", unit="byte")
    assert sum(updates) == 18 and min(updates) >= 0


@pytest.mark.parametrize("number", [1, 2])
def test_an_error_ends_the_run(tmp_path, number):
    jobs = [Write(tmp_path / "a"), Write(tmp_path / "b", trouble="input")]
    with pytest.raises(InputError, match="b is wrong"), Workers(number) as workers:
        workers.run(jobs, stage="write", unit="file")
    assert not (tmp_path / "b").exists()


def test_a_killed_worker_is_reported(tmp_path):
    jobs = [Write(tmp_path / "a", trouble="killed")]
    killed = pytest.raises(ChildProcessError, match="run the same command again")
    with killed, Workers(2) as workers:
        workers.run(jobs, stage="write", unit="file")


def test_ctrl_c_never_reaches_a_worker(tmp_path):
    jobs = [Write(tmp_path / "a", trouble="Ctrl-C")]
    with Workers(2) as workers:
        workers.run(jobs, stage="write", unit="file")
    assert (tmp_path / "a").exists()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path, end):
    """Ctrl-C does not wait for a job, which may take hours."""
    program = (
        "import signal, sys; from pathlib import Path; from tfrecords_tools.jobs import Workers\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r}); from test_jobs import Write\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored\n"
        "    with Workers(2) as workers:\n"
        f"        jobs = [Write(Path({str(tmp_path)!r}, n), trouble='busy') for n in 'ab']\n"
        "        workers.run(jobs, stage='write', unit='file')\n"
    )
    (tmp_path / "main.py").write_text(program)
    parent = subprocess.Popen([sys.executable, tmp_path / "main.py"], stderr=subprocess.DEVNULL)
    files = [tmp_path / "a.process", tmp_path / "b.process"]
    try:
        wait_until(lambda: all(file.exists() and file.read_text() for file in files))
        parent.send_signal(end)
        parent.wait(timeout=10)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not any(is_running(int(file.read_text())) for file in files), seconds=10)


def is_running(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until(happened, seconds: float = 30):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_zero_workers_are_refused():
    with pytest.raises(InputError, match="workers is 0; expected at least 1"):
        Workers(0)
