"""JAX trains as TensorFlow does, on any number of devices and where TensorFlow is absent."""

import contextlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.distribution.loss import GlobalMean
from bert_keras.distribution.strategy import named_policy, num_devices, strategy_scope
from bert_keras.errors import InputError
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.models.task_models import BertClassifier
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.training.loop import for_devices
from bert_keras.training.optimizer import OPTIMIZERS
from bert_keras.training.tensorboard import read_curves
from tests.distribution import training
from tests.distribution.training import (
    CONFIG,
    LOSSES,
    rows,
    run_workers,
    workers_of_jax,
)
from tests.factories import WORDS, batches_of, tiny_config, tiny_vocabulary, write_records
from tests.under_jax import with_jax, without_tensorflow

if keras.config.backend() == "jax":
    import jax


HERE = SimpleNamespace(scope=contextlib.nullcontext)  # the devices of the current scope


def set_weights(model) -> None:
    random = np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape) / 5 for w in model.get_weights()])


def trained(strategy: str, *, parts: int = 1) -> dict[str, np.ndarray]:
    """Returns the weights after ten steps and the logs."""
    with strategy_scope(strategy):
        weights, logs = training.trained(HERE, parts=parts, optimizer=OPTIMIZERS["muon"](2e-4))
    return weights | logs


def assert_same(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=2e-6, rtol=1e-5, err_msg=name)


@with_jax
def test_devices_and_parts_change_nothing():
    one = trained("one")
    assert_same(trained("one", parts=2), one)
    assert_same(trained("mirrored"), one)
    assert_same(trained("mirrored", parts=3), one)  # 16 rows and 8 copies


@with_jax
def test_the_parts_of_a_step_are_not_in_memory_together():
    sizes = []
    for parts in (1, 8):
        model, batch = training.compiled(HERE, parts=parts), next(training.batches(size=256))
        model.train_on_batch(*batch)
        state = [model.trainable_variables, model.non_trainable_variables]
        state += [model.optimizer.variables, model.metrics_variables]
        values = [[each.value for each in variables] for variables in state]
        program = jax.jit(model.train_step).lower(values, batch).compile()
        sizes.append(program.memory_analysis().temp_size_in_bytes)
    assert sizes[1] < 0.3 * sizes[0]


CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# Name -> the loss, the parts of a batch
CASES = {"global": (GlobalMean(CROSS_ENTROPY), 1), "of Keras": (CROSS_ENTROPY, 2)}
CASES |= {name: (loss, 1) for name, loss in LOSSES.items()}
RARE = [pytest.param(name, marks=pytest.mark.slow) for name in ("global", "ranking")]


def trained_on_rows(name: str, strategy: str, *, parts: int = 1, is_filled: bool = True):
    """Returns the weights, the logs and how often the step was compiled."""
    traces = []

    def train_step(self, *arguments):
        traces.append(1)
        return super(Traced, self).train_step(*arguments)

    kind = BertSentenceEncoder if name in LOSSES else BertClassifier
    Traced = type("Traced", (kind,), {"train_step": train_step})
    x, y = rows(name)
    arrays, options = (x, y), {}
    if name not in LOSSES:
        x = {key: array[:, 0] for key, array in x.items()}
        arrays = (x, (y > 0.5).astype("int32"), np.where(y > 0.8, 0, y).astype("float32"))
        options = {"weighted_metrics": ["accuracy"]}
    with strategy_scope(strategy):
        model = Traced(BertConfig(**CONFIG), **({"num_labels": 2} if options else {}))
        set_weights(model)
        options["gradient_accumulation_steps"] = parts
        model.compile(keras.optimizers.SGD(0.05), loss=CASES[name][0], **options)
        data = [batches_of(arrays, size=8) for _ in range(2)]
        if is_filled:
            data = [for_devices(each, batch_size=8, num_parts=parts) for each in data]
        options = {"epochs": 2, "shuffle": False, "verbose": 0, "validation_data": data[1]}
        logs = model.fit(data[0], **options).history
    return training.weights_of(model) | logs, len(traces)


@with_jax
@pytest.mark.parametrize("name", ["of Keras", "cosent", "matryoshka", *RARE])
def test_copied_rows_do_not_count_and_the_last_batch_needs_no_program(name):
    parts = CASES[name][1]
    expected, num_traces = trained_on_rows(name, "one", is_filled=False)
    assert num_traces == 2  # the last of three batches has 5 rows
    for strategy in ("one", "mirrored"):
        found, num_traces = trained_on_rows(name, strategy, parts=parts)
        assert_same(found, expected)
        assert num_traces == 1


@with_jax
def test_a_strategy_is_a_number_of_devices(monkeypatch):
    for name, number in {"one": 1, "auto": 8, "mirrored": 8}.items():
        with strategy_scope(name):
            assert num_devices() == number, name
        assert num_devices() == 1
    monkeypatch.setenv("JAX_NUM_PROCESSES", "two")
    for name in ("tpu", "multiworker"):
        with pytest.raises(InputError):
            strategy_scope(name)
    assert named_policy() == "float32"


def save_start(folder: Path) -> None:
    """Saves a pretrained model without dropout."""
    rates = {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    model = BertPretrainer(tiny_config(**rates))
    set_weights(model)
    model.save_pretrained(folder, tokenizer=WordPieceTokenizer(tiny_vocabulary()))


class Runs:
    """Runs of the same command from the same weights, without dropout."""

    def __init__(self, folder: Path):
        self.folder = folder
        split = {"shards": 2, "held_out_rate": 0.34}
        records = write_records(folder, max_length=32, max_predictions=5, **split)
        save_start(folder / "start")
        changes = "num_steps=100 num_warmup_steps=10 batch_size=12 learning_rate=1e-4"
        changes += " steps_per_log=10 logs_per_checkpoint=5 optimizer=adamw"
        self.command = ["pretrain", "demo", "--records", str(records), "--precision", "float32"]
        self.command += ["--from", str(folder / "start"), "--set", *changes.split()]
        assert main([*self.command, "--output", str(folder / "tensorflow")]) == 0
        self.run_jax("jax")

    def run_jax(self, name: str, *changes: str, **environment) -> None:
        command = [*self.command, *changes, "--output", str(self.folder / name)]
        without_tensorflow([command], **environment)

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
def test_eight_devices_and_three_parts_give_the_run_of_one(runs):
    """Neither the training batches nor the held-out ones can be divided by eight."""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    runs.run_jax("eight", "gradient_accumulation_steps=3", **environment)
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


def workers_trained(folder: Path, number: int, *, devices: int = 2, end: str = ""):
    """Trains ten steps, or until a signal ends one process; returns the weights of the first."""
    pytest.importorskip("jax")
    script = [training.__file__, folder / "{index}.npz", folder / "run", training.NUM_STEPS, end]
    results = run_workers(workers_of_jax(number, devices=devices), *script)
    codes = {"": number * [0], "SIGTERM": number * [143], "SIGKILL": [-6, -9]}[end]
    assert [code for code, _ in results] == codes, results
    return None if end else dict(np.load(folder / "0.npz"))


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    return workers_trained(tmp_path_factory.mktemp("one"), 1, devices=1)


def assert_weights(weights, expected, *, tolerance=1e-5):
    for name, value in expected.items():
        np.testing.assert_allclose(weights[name], value, atol=tolerance, rtol=0, err_msg=name)


@pytest.mark.slow
def test_four_processes_end_at_one_step_and_continue(one_process, tmp_path):
    """One of them receives SIGTERM."""
    workers_trained(tmp_path, 4, end="SIGTERM")
    assert len([*tmp_path.glob("run/checkpoints/step-[789].npz")]) == 1
    assert_weights(workers_trained(tmp_path, 4), one_process)


@pytest.mark.slow
def test_a_killed_process_ends_the_other_one_and_any_number_continues(one_process, tmp_path):
    killed, alone = tmp_path / "killed", tmp_path / "alone"
    expected = workers_trained(tmp_path, 2)
    assert_weights(expected, one_process)
    workers_trained(killed, 2, end="SIGKILL")
    assert [each.name for each in killed.glob("run/checkpoints/*")] == ["step-6.npz"]
    shutil.copytree(killed, alone)
    assert_weights(workers_trained(killed, 2), expected, tolerance=0)
    assert_weights(workers_trained(alone, 1, devices=1), one_process)


@pytest.mark.slow
def test_two_processes_fine_tune_as_one(tmp_path):
    pytest.importorskip("jax")
    save_start(tmp_path / "start")
    rows = [f"{' '.join(WORDS[n % 5 :])}\t{n % 3 % 2}\n" for n in range(31)]
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "".join(rows))
    command = ["-m", "bert_keras.cli", "finetune", "classification", "--recipe", "demo"]
    command += ["--from", tmp_path / "start", "--train", tmp_path / "rows.tsv", "--max-length", 32]
    command += ["--set", "logs_per_epoch=2", "dropout_rate=0.0", "--output"]
    for number in (1, 2):
        results = run_workers(workers_of_jax(number), *command, tmp_path / str(number))
        assert [code for code, _ in results] == number * [0], results
    one, two = (json.loads((tmp_path / each / "scores.json").read_text()) for each in "12")
    assert two == pytest.approx(one, rel=1e-5)
