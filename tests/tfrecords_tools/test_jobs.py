import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from bert_keras.errors import InputError
from tests.factories import wait_for
from tfrecords_tools.build import BYTES_PER_WORKER, Workers, build, finished_result, num_workers
from tfrecords_tools.settings import BuildSettings


@pytest.fixture(autouse=True)
def new_processes_find_this_file(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


@dataclass(frozen=True)
class Write:
    output: Path
    size: int = 2
    trouble: str = ""

    def __call__(self):
        if self.trouble == "input":
            raise InputError(f"{self.output.name} is wrong")
        if self.trouble == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "busy":  # for hours
            self.output.with_suffix(".process").write_text(str(os.getpid()))
            time.sleep(3600)
        self.output.write_text(str(os.getpid()))
        return {"name": self.output.name}


@pytest.mark.parametrize("number", [1, 2])
def test_only_jobs_without_a_valid_receipt_run(tmp_path, number):
    jobs = [Write(tmp_path / str(each)) for each in range(5)]
    names = [{"name": str(each)} for each in range(5)]
    with Workers(number) as workers:
        assert workers.run(jobs[:4], stage="write", unit="file") == names[:4]
        before = [job.output.stat().st_mtime_ns for job in jobs[:4]]
        jobs[1].output.write_text("x" * len(jobs[1].output.read_text()))
        jobs[2].output.unlink()
        (tmp_path / "3.json").write_text((tmp_path / "3.json").read_text()[:-2])
        assert workers.run(jobs, stage="write", unit="file") == names
        after = [job.output.stat().st_mtime_ns for job in jobs[:4]]
    assert [n for n in range(4) if before[n] == after[n]] == [0]
    processes = {job.output.read_text() for job in jobs}
    assert (processes == {str(os.getpid())}) == (number == 1)
    assert [finished_result(job.output) for job in jobs] == names


@pytest.mark.parametrize(("number", "trouble"), [(1, "input"), (2, "input"), (2, "killed")])
def test_an_error_or_a_killed_worker_ends_the_run(tmp_path, number, trouble):
    jobs = [Write(tmp_path / "a"), Write(tmp_path / "b", trouble=trouble)]
    errors = (InputError, ChildProcessError)
    with pytest.raises(errors), Workers(number) as workers:
        workers.run(jobs, stage="write", unit="file")
    assert not (tmp_path / "b").exists()


def test_a_small_corpus_starts_no_process(corpus, vocabulary, tmp_path, monkeypatch):
    sizes = [0, BYTES_PER_WORKER, 2 * BYTES_PER_WORKER, 100 * BYTES_PER_WORKER]
    assert [num_workers(4, num_bytes=size) for size in sizes] == [1, 1, 2, 4]
    started = []
    monkeypatch.setattr("tfrecords_tools.build.Workers", lambda n: started.append(n) or Workers(1))
    arguments = {"vocabulary": vocabulary, "settings": BuildSettings(), "workers": 2}
    build(corpus, output=tmp_path / "records", **arguments)
    assert started == [1]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path, end):
    """Ctrl-C does not wait for a job, which may take hours."""
    program = (
        "import signal, sys; from pathlib import Path; from tfrecords_tools.build import Workers\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r}); from test_jobs import Write\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored\n"
        "    with Workers(2) as workers:\n"
        f"        jobs = [Write(Path({str(tmp_path)!r}, n), trouble='busy') for n in 'ab']\n"
        "        workers.run(jobs, stage='write', unit='file')\n"
    )
    (tmp_path / "main.py").write_text(program)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, tmp_path / "main.py"]
    parent = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    files = [tmp_path / "a.process", tmp_path / "b.process"]
    try:
        wait_for(lambda: all(file.exists() and file.read_text() for file in files))
        parent.send_signal(end)
        parent.wait(timeout=10)
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not any(is_running(int(file.read_text())) for file in files), seconds=10)


def is_running(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False
