"""After SIGKILL a run continues with the same losses."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.distribution.training import two_workers
from tests.runs.test_runs import records  # noqa: F401
from tests.training.pretraining import NUM_STEPS
from tests.under_jax import needs_jax

ROOT = Path(__file__).parents[2]


class Run:
    """All processes of one training: two workers with the strategy multiworker."""

    def __init__(self, folder, output, strategy, *more):
        arguments = [str(each) for each in (folder, output, strategy, *more)]
        command = [sys.executable, "-m", "tests.training.pretraining", *arguments]
        self.processes = [
            subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, env=environment)
            for environment in (two_workers() if strategy == "multiworker" else [os.environ])
        ]
        self.chief = self.processes[0]

    def end(self) -> int:
        """Returns the exit code of the chief; the other workers cannot continue without it."""
        code = self.chief.wait()
        for process in self.processes[1:]:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return code

    def kill(self) -> int:
        for process in self.processes:
            process.kill()
        return self.end()


def losses(output) -> list[tuple[int, float]]:
    """Returns step and loss of every logged step, in the order of the log."""
    path = output.with_name(f"{output.name}.losses")
    lines = path.read_text().splitlines() if path.is_file() else []
    return [(int(step), float.fromhex(loss)) for step, loss in map(str.split, lines)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend, strategy, optimizer, tolerance",
    [
        ("tensorflow", "one", "adamw", 0),
        ("tensorflow", "one", "muon", 0),
        ("tensorflow", "mirrored", "adamw", 1e-6),
        ("tensorflow", "multiworker", "adamw", 1e-6),
        pytest.param("jax", "one", "adamw", 0, marks=needs_jax),
    ],
)
def test_a_killed_run_continues_with_the_same_losses(
    records,  # noqa: F811
    tmp_path,
    monkeypatch,
    backend,
    strategy,
    optimizer,
    tolerance,
):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    unbroken, broken = tmp_path / "whole", tmp_path / "broken"
    assert Run(records, unbroken, strategy, optimizer).end() == 0
    expected = losses(unbroken)
    assert [step for step, _ in expected] == [*range(1, NUM_STEPS + 1)]
    assert len({loss for _, loss in expected}) > 100

    if strategy == "one":
        run = Run(records, broken, strategy, optimizer)
        while run.chief.poll() is None and len(losses(broken)) < 33:
            time.sleep(0.05)
        assert run.kill() == -9, "the run ended before it was killed"
    assert Run(records, broken, strategy, optimizer, 60).end() == -9  # during saving
    num_before = len(losses(broken))
    assert Run(records, broken, strategy, optimizer).end() == 0
    logged = losses(broken)
    assert logged[num_before][0] == 41  # the incomplete state of step 60 is ignored
    assert len(logged) - num_before == NUM_STEPS - 40
    if strategy == "one":
        assert all(each in expected for each in logged)
    np.testing.assert_allclose(logged[num_before:], expected[40:], rtol=0, atol=tolerance)
