"""A whole run of half precision: weights stay float32, the losses stay near."""

import json
import subprocess
import sys

import pytest

from bert_keras.convert.formats import open_checkpoint
from tests.runs.test_runs import records  # noqa: F401

SETTINGS = ["size=tiny", "num_steps=30", "num_warmup_steps=5", "steps_per_log=10", "seed=2"]


@pytest.mark.slow
def test_precisions_end_alike(records, tmp_path):  # noqa: F811
    losses = {}
    for precision in ("float32", "bfloat16", "float16"):
        output = tmp_path / precision
        command = ["pretrain", "demo", "--records", records, "--output", output]
        more = ["--precision", precision, "--set", *SETTINGS, "recomputes=true"]
        subprocess.run([sys.executable, "-m", "bert_keras.cli", *command, *more], check=True)
        losses[precision] = json.loads((output / "scores.json").read_text())[
            "held_out_masked_lm_loss"
        ]
        tensors = open_checkpoint(output / "model").tensors.values()
        assert {tensor.read().dtype.name for tensor in tensors} == {"float32"}
    assert losses["bfloat16"] == pytest.approx(losses["float32"], abs=0.05)
    assert losses["float16"] == pytest.approx(losses["float32"], abs=0.05)
    assert len(set(losses.values())) == 3  # each computed in its own
