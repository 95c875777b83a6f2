"""Resumable runs: curves, interruptions, saved states, and runs that are stopped."""

import dataclasses
import functools
import itertools
import os
import signal
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig
from bert_keras.data.batches import Batches
from bert_keras.errors import InputError
from bert_keras.models.task_models import BertClassifier
from bert_keras.training import states
from bert_keras.training.callbacks import FitSettings, tag
from bert_keras.training.loop import fit_resumable
from bert_keras.training.optimizer import BertAdamW, LinearWarmupDecay
from bert_keras.training.tensorboard import read_curves
from tests.factories import batches_of, stopped_by_sigterm

CONFIG = BertConfig(vocab_size=20, hidden_size=8, num_layers=1, num_heads=2, max_positions=8)


def new(*, seed: int = 1, config: BertConfig = CONFIG) -> BertClassifier:
    keras.utils.set_random_seed(seed)
    model = BertClassifier(config, num_labels=2)
    model.compile(
        optimizer=BertAdamW(LinearWarmupDecay(0.02, num_steps=40, num_warmup_steps=4)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.optimizer.build(model.trainable_variables)
    return model


def compiled(*, seed: int = 1) -> BertClassifier:
    """Returns one cached model with the variables of `new`, because tracing takes most of the time.

    Read `values` before the next call.
    """
    model = _cached_model()
    for variable, value in zip(_variables(model), _new_values(seed), strict=True):
        variable.assign(value)
    return model


_cached_model = functools.cache(new)


@functools.cache
def _new_values(seed: int) -> list[np.ndarray]:
    return values(new(seed=seed))


def _variables(model) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables]


def values(model) -> list[np.ndarray]:
    """Returns the values of the weights, the random states and the optimizer."""
    return [keras.ops.convert_to_numpy(variable) for variable in _variables(model)]


def assert_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for number, (value, other) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_array_equal(value, other, f"variable {number}")


def rows() -> tuple:
    ids = np.random.default_rng(0).integers(5, 20, (64, 6), dtype="int32")
    x = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    return x, (ids[:, 1] > 12).astype("int32")


def batches() -> Batches:
    return batches_of(rows(), size=8, is_endless=True)


def settings(output: Path, **changes) -> FitSettings:
    usual = {"stage": "test", "num_steps": 16, "steps_per_epoch": 4, "epochs_per_checkpoint": 2}
    usual |= {"keep_checkpoints": 2, "batch_size": 8, "tokens_per_example": 6}
    return FitSettings(output=output, **usual | changes)


def train(model, output, *, num_steps: int, board=()) -> int:
    held_out = batches_of(keras.tree.map_structure(lambda array: array[:16], rows()), size=8)
    options = {"held_out": held_out, "board": board}
    return fit_resumable(model, batches, settings(output, num_steps=num_steps), **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The values of a model after an unbroken run of 16 steps, and the folder of the run."""
    model, folder = compiled(), tmp_path_factory.mktemp("whole")
    assert train(model, folder, num_steps=16) == 0
    return values(model), folder


@pytest.fixture
def any_model():
    return compiled()


@pytest.mark.parametrize(
    "signal_after", [11, *(pytest.param(each, marks=pytest.mark.slow) for each in (4, 5, 8))]
)
def test_sigterm_saves_the_state_and_the_same_call_continues(whole, tmp_path, signal_after):
    with stopped_by_sigterm(steps_left=16 - signal_after):
        train(compiled(), tmp_path / "broken", num_steps=16)
    rest = compiled(seed=99)
    assert train(rest, tmp_path / "broken", num_steps=16) == signal_after
    unbroken, folder = whole
    assert_same(values(rest), unbroken)
    curves = [read_curves(each / "logs")["held_out"] for each in (folder, tmp_path / "broken")]
    assert curves[0] == curves[1]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_in_the_last_step_of_the_run_leaves_nothing_out(any_model, tmp_path):
    """The last epoch has three of four steps; its held-out data are scored before the end."""

    def kill(batch, logs):
        if next(steps) == 11:
            os.kill(os.getpid(), signal.SIGTERM)

    steps, board = itertools.count(1), [keras.callbacks.LambdaCallback(on_train_batch_end=kill)]
    with pytest.raises(SystemExit):
        train(any_model, tmp_path, num_steps=11, board=board)
    losses = read_curves(tmp_path / "logs")["held_out"]["loss/total"]
    assert [step for step, _ in losses] == [8, 11]
    assert train(any_model, tmp_path, num_steps=11) == 11


def test_the_newest_states_stay_also_on_a_full_disk(any_model, tmp_path, monkeypatch):
    folder = tmp_path / "checkpoints"
    train(any_model, tmp_path, num_steps=24)
    assert states.saved_steps(folder) == [16, 24]

    def full(file, array):
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError):
        train(any_model, tmp_path, num_steps=32)
    assert {path.name for path in folder.iterdir()} == {"step-16.npz", "step-24.npz"}
    monkeypatch.undo()
    for name in ("step-8.npz", ".step-27.npz.part"):  # left by a killed process
        (folder / name).touch()
    assert train(any_model, tmp_path, num_steps=24) == 24
    assert {path.name for path in folder.iterdir()} == {"step-16.npz", "step-24.npz"}


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("damage", [flipped, pytest.param(truncated, marks=pytest.mark.slow)])
def test_a_damaged_state_is_replaced_by_the_one_before(any_model, tmp_path, capsys, damage):
    for num_steps in (4, 8):  # two states
        train(any_model, tmp_path, num_steps=num_steps)
    folder = tmp_path / "checkpoints"
    damage(folder / "step-8.npz")
    any_model.optimizer.iterations.assign(0)  # as in a new process
    assert train(any_model, tmp_path, num_steps=12) == 4
    assert "step-8.npz is damaged" in capsys.readouterr().err
    assert states.saved_steps(folder) == [8, 12] and train(any_model, tmp_path, num_steps=12) == 12
    for path in folder.iterdir():
        damage(path)
    with pytest.raises(InputError):
        train(any_model, tmp_path, num_steps=16)


@pytest.mark.parametrize("changes", [{"hidden_size": 4}, {"num_layers": 2}])
def test_the_state_of_another_run_is_refused(whole, changes):
    with pytest.raises(InputError):
        train(new(config=dataclasses.replace(CONFIG, **changes)), whole[1], num_steps=20)


def test_tensorboard_has_every_curve(whole):
    runs = read_curves(whole[1] / "logs")
    assert set(runs["train"]) == {
        *("loss/total", "accuracy/total", "optimizer/learning_rate", "optimizer/gradient_norm"),
        *("speed/examples_per_second", "speed/tokens_per_second"),
    }
    assert set(runs["held_out"]) == {"loss/total", "accuracy/total"}
    assert [step for step, _ in runs["train"]["loss/total"]] == [4, 8, 12, 16]
    assert [step for step, _ in runs["held_out"]["loss/total"]] == [8, 16]
    assert dict(runs["train"]["optimizer/learning_rate"])[16] == pytest.approx(0.02 * 0.6)
    examples, tokens = (
        dict(runs["train"][f"speed/{unit}_per_second"]) for unit in ("examples", "tokens")
    )
    assert tokens[16] == pytest.approx(6 * examples[16], rel=1e-5)
    assert dict(runs["train"]["optimizer/gradient_norm"])[16] > 0
    assert tag("val_masked_lm_accuracy") == "accuracy/masked_lm"
    with pytest.raises(InputError):
        read_curves(whole[1] / "checkpoints")


def test_only_the_first_worker_writes(any_model, tmp_path, monkeypatch):
    for module in ("callbacks", "states"):
        monkeypatch.setattr(f"bert_keras.training.{module}.is_chief", lambda: False)
    train(any_model, tmp_path, num_steps=4)
    assert not [*tmp_path.rglob("*")]


def guarded(output, *, bad_steps=(), max_skipped=0, loss_of=None):
    """Trains 12 steps in three epochs; in `bad_steps` the weight of one row is NaN."""

    def read(first):
        for step, (x, y) in enumerate(batches().skip(first), first):
            weights = np.full(8, 1.0 if loss_of is None else loss_of(step), "float32")
            weights[3] += np.nan if step in bad_steps else 0
            yield x, y, weights

    model = compiled()
    changes = {"num_steps": 12, "epochs_per_checkpoint": 1, "max_skipped": max_skipped}
    spec = keras.tree.map_structure(keras.ops.convert_to_tensor, next(read(0)))
    fit_resumable(model, lambda: Batches(read, spec=spec), settings(output, **changes))
    return model


def test_a_bad_batch_stops_the_run_which_then_continues_after_it(tmp_path):
    with pytest.raises(InputError):
        guarded(tmp_path, bad_steps=(5,))
    resumed = values(guarded(tmp_path, bad_steps=(5,)))
    skipping = guarded(tmp_path / "skipping", bad_steps=(5,), max_skipped=1)
    assert int(skipping.optimizer.iterations) == 12 and int(skipping.optimizer.skipped) == 1
    assert_same(resumed, values(skipping))
    assert all(np.isfinite(value).all() for value in resumed)
    with pytest.raises(InputError):
        guarded(tmp_path / "more", bad_steps=(4, 5, 7), max_skipped=2)


@pytest.mark.slow
def test_an_exploded_run_stops_again_after_each_restart(tmp_path):
    for _ in range(3):
        with pytest.raises(InputError):
            guarded(tmp_path, loss_of=lambda step: 1.0 if step < 4 else 5.0)
        assert states.saved_steps(tmp_path / "checkpoints") == [4]
    guarded(tmp_path / "falling", loss_of=lambda step: 1 / (1 + step))


def test_all_problems_of_a_training_state_are_named(tmp_path):
    model = compiled()
    state = states.training_state(model)
    name = "encoder/pooler/bias"
    momentums = {n: t for n, t in state.momentums.items() if n != name}
    velocities = {**state.velocities, name: StoredTensor((3,), lambda: np.zeros(3))}
    broken = dataclasses.replace(state, step=7, momentums=momentums, velocities=velocities)
    with pytest.raises(InputError, match=rf"{name}.*\(3,\)"):
        states.load_training_state(model, broken)
    assert states.TrainingCheckpoints(model, tmp_path, epochs_per_save=1, keep=1).restore() == 0
