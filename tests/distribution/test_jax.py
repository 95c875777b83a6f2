"""JAX trains as TensorFlow does, on any number of devices and where TensorFlow is absent."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import OPTIMIZERS
from bert_keras.training.tensorboard import read_curves
from tests.distribution.training import CONFIG, batches_to_continue
from tests.factories import tiny_config, tiny_vocabulary, write_records
from tests.under_jax import needs_jax, under_jax, without_tensorflow

pytestmark = needs_jax


def trained(optimizer: str) -> dict[str, np.ndarray]:
    """Returns the weights after ten steps and the logs, from equal weights on every backend."""
    model, random = BertPretrainer(BertConfig(**CONFIG)), np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape) / 5 for w in model.get_weights()])
    rule, metrics = OPTIMIZERS[optimizer](2e-4), pretraining_metrics()
    model.compile(rule, loss=pretraining_losses(), weighted_metrics=metrics)
    logs = model.fit(batches_to_continue().for_fit(), epochs=1, shuffle=False, verbose=0).history
    weights = {w.path: keras.ops.convert_to_numpy(w) for w in model.trainable_variables}
    return weights | {name: np.array(values) for name, values in logs.items()}


CODE = """
import sys
import keras
import numpy as np
from tests.distribution.test_jax import trained

keras.distribution.set_distribution(keras.distribution.DataParallel())
np.savez(sys.argv[2], **trained(sys.argv[1]))
"""

EIGHT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_eight_devices_give_the_weights_of_tensorflow(tmp_path, optimizer):
    under_jax(CODE, optimizer, tmp_path / "jax.npz", **EIGHT)
    theirs = np.load(tmp_path / "jax.npz")
    for name, value in trained(optimizer).items():
        np.testing.assert_allclose(theirs[name], value, atol=2e-6, rtol=1e-5, err_msg=name)


class Runs:
    """Runs of the same command from the same weights, without dropout."""

    def __init__(self, folder: Path):
        self.folder = folder
        split = {"shards": 2, "held_out_rate": 0.34}
        records = write_records(folder, max_length=32, max_predictions=5, **split)
        rates = {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
        model, random = BertPretrainer(tiny_config(**rates)), np.random.default_rng(0)
        model.set_weights([random.normal(size=w.shape) / 5 for w in model.get_weights()])
        model.save_pretrained(folder / "start", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
        changes = "num_steps=100 num_warmup_steps=10 batch_size=12 learning_rate=1e-4"
        changes += " steps_per_log=10 logs_per_checkpoint=5 optimizer=adamw"
        self.command = ["pretrain", "demo", "--records", str(records), "--precision", "float32"]
        self.command += ["--from", str(folder / "start"), "--set", *changes.split()]
        assert main([*self.command, "--output", str(folder / "tensorflow")]) == 0
        self.run_jax("jax")

    def run_jax(self, name: str, **environment) -> None:
        command = [*self.command, "--output", str(self.folder / name)]
        without_tensorflow([command], **environment)

    def assert_same(self, name: str, other: str, *, tolerance: float) -> None:
        """Compares the weights, each relative to its largest value, and the scores."""
        ours, theirs = (
            load_file(self.folder / each / "model/weights.safetensors") for each in (name, other)
        )
        assert {*ours} == {*theirs}
        for weight, value in theirs.items():
            error = np.abs(ours[weight] - value).max() / np.abs(value).max()
            assert error <= tolerance, (weight, error)
        scores, expected = (
            json.loads((self.folder / each / "scores.json").read_text()) for each in (name, other)
        )
        assert scores == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
def test_a_run_without_tensorflow_gives_its_weights_scores_and_curves(runs):
    runs.assert_same("jax", "tensorflow", tolerance=1e-5)
    theirs, ours = (read_curves(runs.folder / name / "logs") for name in ("tensorflow", "jax"))
    assert {run: {*ours[run]} for run in ours} == {run: {*theirs[run]} for run in theirs}
    for run, curves in theirs.items():
        for tag, curve in curves.items():
            assert [step for step, _ in ours[run][tag]] == [step for step, _ in curve]
            if not tag.startswith("speed/"):
                np.testing.assert_allclose(ours[run][tag], curve, rtol=1e-4, err_msg=tag)
    assert len(ours["train"]["loss/total"]) == 10 and len(ours["held_out"]["loss/total"]) == 2


@pytest.mark.slow
def test_eight_devices_give_the_run_of_one(runs):
    """Neither the training batches nor the held-out ones can be divided by eight."""
    runs.run_jax("eight", **EIGHT)
    runs.assert_same("eight", "jax", tolerance=2e-6)


@pytest.mark.slow
def test_a_run_continues_with_the_other_engine(runs):
    folder = runs.folder / "mixed"
    shutil.copytree(runs.folder / "tensorflow", folder)
    shutil.rmtree(folder / "model", ignore_errors=True)
    for name in ("scores.json", "checkpoints/step-100.npz"):
        (folder / name).unlink()
    runs.run_jax("mixed")
    runs.assert_same("mixed", "tensorflow", tolerance=1e-5)


NAMES = """
import contextlib
import sys
from bert_keras.distribution.numerics import named_policy
from bert_keras.distribution.strategy import num_devices, strategy_scope
from bert_keras.errors import InputError

sys.modules["tensorflow"] = None
for name, number in {"one": 1, "auto": 8, "mirrored": 8}.items():
    with strategy_scope(name):
        assert num_devices() == number, name
    assert num_devices() == 1
for name, message in {"tpu": "JAX finds no TPU", "multiworker": "needs TensorFlow"}.items():
    with contextlib.suppress(InputError):
        strategy_scope(name)
        raise AssertionError(name)
assert named_policy() == "float32"
"""


def test_a_strategy_is_a_number_of_devices():
    under_jax(NAMES, **EIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_loop.py", "test_evaluations.py"])
def test_interrupted_runs_behave_as_with_tensorflow(name):
    path = Path(__file__).parents[1] / "training" / name
    under_jax(f"import sys, pytest; sys.exit(pytest.main([{str(path)!r}, '-x']))")
