"""After SIGKILL a run on several devices continues with the same losses.

tests/attack kills runs on one device.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.distribution.training import two_workers
from tests.runs.test_runs import records  # noqa: F401
from tests.training.pretraining import NUM_STEPS

ROOT = Path(__file__).parents[2]


def exit_code(folder, output, strategy, *more) -> int:
    """Returns the exit code of the chief; other workers cannot continue without it."""
    words = map(str, (folder, output, strategy, *more))
    command = [sys.executable, "-m", "tests.training.pretraining", *words]
    environments = two_workers() if strategy == "multiworker" else [None]
    chief, *others = (
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, env=environment)
        for environment in environments
    )
    code = chief.wait()
    for process in others:
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return code


def losses(output) -> list[tuple[int, float]]:
    """Returns step and loss of every logged step, in the order of the log."""
    path = output.with_name(f"{output.name}.losses")
    lines = path.read_text().splitlines() if path.is_file() else []
    return [(int(step), float.fromhex(loss)) for step, loss in map(str.split, lines)]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["mirrored", "multiworker"])
def test_a_killed_run_continues_with_the_same_losses(records, tmp_path, strategy):  # noqa: F811
    unbroken, broken = tmp_path / "whole", tmp_path / "broken"
    assert exit_code(records, unbroken, strategy) == 0
    expected = losses(unbroken)
    assert [step for step, _ in expected] == [*range(1, NUM_STEPS + 1)]
    assert len({loss for _, loss in expected}) > 100
    assert exit_code(records, broken, strategy, 60) == -9  # during saving
    num_before = len(losses(broken))
    assert exit_code(records, broken, strategy) == 0
    logged = losses(broken)
    assert logged[num_before][0] == 41  # the incomplete state of step 60 is ignored
    assert len(logged) - num_before == NUM_STEPS - 40
    np.testing.assert_allclose(logged[num_before:], expected[40:], rtol=0, atol=1e-6)
