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
from bert_keras.distribution.strategy import named_policy, num_devices, strategy_scope
from bert_keras.errors import InputError
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import OPTIMIZERS
from bert_keras.training.tensorboard import read_curves
from tests.distribution.training import CONFIG, batches_to_continue
from tests.factories import tiny_config, tiny_vocabulary, write_records
from tests.under_jax import with_jax, without_tensorflow


def set_weights(model) -> None:
    random = np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape) / 5 for w in model.get_weights()])


def trained(optimizer: str, *, strategy: str) -> dict[str, np.ndarray]:
    """Returns the weights after ten steps and the logs."""
    with strategy_scope(strategy):
        model = BertPretrainer(BertConfig(**CONFIG))
        set_weights(model)
        rule, metrics = OPTIMIZERS[optimizer](2e-4), pretraining_metrics()
        model.compile(rule, loss=pretraining_losses(), weighted_metrics=metrics)
        batches = batches_to_continue().for_fit()
        logs = model.fit(batches, epochs=1, shuffle=False, verbose=0).history
    weights = {w.path: keras.ops.convert_to_numpy(w) for w in model.trainable_variables}
    return weights | {name: np.array(values) for name, values in logs.items()}


@with_jax
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_eight_devices_give_the_weights_of_one(optimizer):
    one = trained(optimizer, strategy="one")
    for name, value in trained(optimizer, strategy="mirrored").items():
        np.testing.assert_allclose(value, one[name], atol=2e-6, rtol=1e-5, err_msg=name)


@with_jax
def test_a_strategy_is_a_number_of_devices():
    for name, number in {"one": 1, "auto": 8, "mirrored": 8}.items():
        with strategy_scope(name):
            assert num_devices() == number, name
        assert num_devices() == 1
    for name in ("tpu", "multiworker"):
        with pytest.raises(InputError):
            strategy_scope(name)
    assert named_policy() == "float32"


class Runs:
    """Runs of the same command from the same weights, without dropout."""

    def __init__(self, folder: Path):
        self.folder = folder
        split = {"shards": 2, "held_out_rate": 0.34}
        records = write_records(folder, max_length=32, max_predictions=5, **split)
        rates = {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
        model = BertPretrainer(tiny_config(**rates))
        set_weights(model)
        model.save_pretrained(folder / "start", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
        changes = "num_steps=100 num_warmup_steps=10 batch_size=12 learning_rate=1e-4"
        changes += " steps_per_log=10 logs_per_checkpoint=5 optimizer=adamw"
        self.command = ["pretrain", "demo", "--records", str(records), "--precision", "float32"]
        self.command += ["--from", str(folder / "start"), "--set", *changes.split()]
        assert main([*self.command, "--output", str(folder / "tensorflow")]) == 0
        self.run_jax("jax")

    def run_jax(self, name: str, **environment) -> None:
        without_tensorflow([[*self.command, "--output", str(self.folder / name)]], **environment)

    def assert_same(self, name: str, other: str, *, tolerance: float) -> None:
        """Compares the weights, each relative to its largest value, and the scores."""
        folders = [self.folder / each for each in (name, other)]
        ours, theirs = (load_file(each / "model/weights.safetensors") for each in folders)
        assert {*ours} == {*theirs}
        for weight, value in theirs.items():
            error = np.abs(ours[weight] - value).max() / np.abs(value).max()
            assert error <= tolerance, (weight, error)
        scores, expected = (json.loads((each / "scores.json").read_text()) for each in folders)
        assert scores == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    pytest.importorskip("jax")
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
    runs.run_jax("eight", XLA_FLAGS="--xla_force_host_platform_device_count=8")
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
