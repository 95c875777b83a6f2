"""The training step of a recipe compiles for a TPU, on a machine without one."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bert_keras.families import preset
from bert_keras.runs.pretrain import flops_per_example

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason='needs libtpu: pip install "bert-keras[jax,tpu]"',
)
def test_the_step_of_a_recipe_compiles_for_four_chips():
    command = [sys.executable, "benchmarks/tpu_compile.py", "--recipe", "tiny-hour"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    recipe, rows, _, length, arguments, temporary, total, teraflops, _ = run.stdout.split()[-9:]
    assert (recipe, rows, length) == ("tiny-hour", "32", "128")
    assert 0 < float(arguments) < float(total) < 16 and float(temporary) > 0
    # A chip computes a quarter of the batch, and little beside matrix products.
    expected = 32 / 4 * flops_per_example(preset("tiny"), 128, 20) / 1e12
    assert 0.9 < float(teraflops) / expected < 1.3
