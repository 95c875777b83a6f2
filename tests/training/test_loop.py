"""Resumable runs: curves, interruptions, saved states."""

import dataclasses
import functools
import os
import signal
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.errors import InputError
from bert_keras.models import load_model
from bert_keras.models.task_models import BertClassifier
from bert_keras.training.callbacks import FitSettings, tag
from bert_keras.training.checkpoints import (
    TrainingCheckpoints,
    load_training_state,
    training_state,
)
from bert_keras.training.curves import read_curves
from bert_keras.training.loop import StopAfter, fit_resumable
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.saved_states import saved_steps
from bert_keras.training.schedule import LinearWarmupDecay

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


def compiled(*, seed: int = 1, config: BertConfig = CONFIG) -> BertClassifier:
    """Returns one cached model with the variables of `new`, because tracing takes most of the time.

    Read `values` before the next call.
    """
    model, fresh = _cached_model(config), new(seed=seed, config=config)
    for target, theirs in zip(_variables(model), _variables(fresh), strict=True):
        target.assign(theirs)
    return model


@functools.cache
def _cached_model(config: BertConfig) -> BertClassifier:
    return new(config=config)


def _variables(model) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables]


def values(model) -> list[np.ndarray]:
    """Returns the values of the weights, the random states and the optimizer."""
    return [keras.ops.convert_to_numpy(variable) for variable in _variables(model)]


def assert_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for number, (value, other) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_array_equal(value, other, f"variable {number}")


def batches() -> tf.data.Dataset:
    random = np.random.default_rng(0)
    ids = random.integers(5, 20, (64, 6), dtype="int32")
    x = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    labels = (ids[:, 1] > 12).astype("int32")
    return tf.data.Dataset.from_tensor_slices((x, labels)).batch(8)


def train(model, output, *, num_steps: int, board=()) -> int:
    settings = FitSettings(
        stage="test",
        output=output,
        num_steps=num_steps,
        steps_per_epoch=4,
        epochs_per_checkpoint=2,
        keep_checkpoints=2,
        batch_size=8,
        tokens_per_example=6,
    )
    held_out = batches().take(2)
    return fit_resumable(model, batches().repeat, settings, held_out=held_out, board=board)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The values of a model after an unbroken run of 16 steps, and the folder of the run."""
    model, folder = compiled(), tmp_path_factory.mktemp("whole")
    assert train(model, folder, num_steps=16) == 0
    return values(model), folder


@pytest.fixture(scope="module")
def traced():
    """A model for tests that do not depend on its weights; its steps are traced once."""
    return compiled()


@pytest.fixture
def any_model(traced):
    traced.optimizer.build(traced.trainable_variables)
    traced.optimizer.iterations.assign(0)
    return traced


@pytest.mark.parametrize("make", [compiled, pytest.param(new, marks=pytest.mark.slow)])
def test_a_resumed_run_equals_an_unbroken_run(whole, tmp_path, make):
    train(compiled(), tmp_path / "broken", num_steps=8)
    rest = make(seed=99)  # all of its values are restored
    assert train(rest, tmp_path / "broken", num_steps=16) == 8
    assert_same(values(rest), whole[0])
    assert train(compiled(), tmp_path / "broken", num_steps=16) == 16  # nothing left to do


@pytest.mark.parametrize(
    ("signal_after", "saved"),
    [
        pytest.param(4, 4, marks=pytest.mark.slow),
        (5, 5),
        pytest.param(8, 8, marks=pytest.mark.slow),
        pytest.param(11, 11, marks=pytest.mark.slow),
    ],
)
def test_sigterm_saves_the_state_and_the_same_call_continues(
    whole, tmp_path, monkeypatch, signal_after, saved
):
    def kill_at(callback, batch, logs=None, ends=StopAfter.on_train_batch_end):
        ends(callback, batch, logs)
        if callback.steps_left == 16 - signal_after:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(StopAfter, "on_train_batch_end", kill_at)
        with pytest.raises(SystemExit) as end:
            train(compiled(), tmp_path / "broken", num_steps=16)
    assert end.value.code == 143
    rest = compiled(seed=99)
    assert train(rest, tmp_path / "broken", num_steps=16) == saved
    unbroken, folder = whole
    assert_same(values(rest), unbroken)
    curves = [read_curves(each / "logs")["held_out"] for each in (folder, tmp_path / "broken")]
    assert curves[0] == curves[1]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_in_the_last_step_of_the_run_leaves_nothing_out(any_model, tmp_path):
    """The last epoch has three of four steps; its held-out data are scored before the end."""

    def kill(batch, logs):
        if int(any_model.optimizer.iterations) == 11:
            os.kill(os.getpid(), signal.SIGTERM)

    board = [keras.callbacks.LambdaCallback(on_train_batch_end=kill)]
    with pytest.raises(SystemExit):
        train(any_model, tmp_path, num_steps=11, board=board)
    held_out = read_curves(tmp_path / "logs")["held_out"]
    assert [step for step, _ in held_out["loss/total"]] == [8, 11]
    assert train(any_model, tmp_path, num_steps=11) == 11


def test_the_newest_checkpoints_are_kept(any_model, tmp_path):
    train(any_model, tmp_path, num_steps=32)
    kept = {path.name.split(".")[0] for path in (tmp_path / "checkpoints").glob("step-*")}
    assert kept == {"step-24", "step-32"}


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


DAMAGES = {"flipped": flipped, "truncated": truncated, "gone": Path.unlink}
STATE_FILES = ("step-8.index", "step-8.data-00000-of-00001")


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("file", STATE_FILES)
def test_a_damaged_state_is_replaced_by_the_one_before(any_model, tmp_path, capsys, file, damage):
    for num_steps in (4, 8):  # two states
        train(any_model, tmp_path, num_steps=num_steps)
    folder = tmp_path / "checkpoints"
    damage(folder / file)
    any_model.optimizer.iterations.assign(0)  # as in a new process
    assert train(any_model, tmp_path, num_steps=12) == 4
    assert "step-8 cannot be read" in capsys.readouterr().err
    assert saved_steps(folder) == [8, 12]
    assert [*folder.glob("damaged-step-8.*")] and train(any_model, tmp_path, num_steps=12) == 12


def test_without_any_readable_state_nothing_is_trained(any_model, tmp_path):
    for num_steps in (4, 8):
        train(any_model, tmp_path, num_steps=num_steps)
    for path in (tmp_path / "checkpoints").glob("*.data*"):
        truncated(path)
    for _ in range(2):
        with pytest.raises(InputError, match=r"none of the 2 saved states in .* can be read"):
            train(any_model, tmp_path, num_steps=12)


@pytest.mark.parametrize("content", [None, b"", b"\xff\x00 garbage {"], ids=ascii)
def test_the_file_checkpoint_is_not_needed(any_model, tmp_path, content):
    train(any_model, tmp_path, num_steps=8)
    listing = tmp_path / "checkpoints" / "checkpoint"
    listing.unlink()
    if content is not None:
        listing.write_bytes(content)
    assert train(any_model, tmp_path, num_steps=12) == 8
    assert tf.train.latest_checkpoint(tmp_path / "checkpoints").endswith("step-12")


def test_the_state_of_another_run_is_refused(any_model, tmp_path):
    train(any_model, tmp_path, num_steps=8)
    other = new(config=dataclasses.replace(CONFIG, hidden_size=4))
    with pytest.raises(InputError, match="step-8 has other weights than the model of this run"):
        train(other, tmp_path, num_steps=12)


def test_a_folder_whose_name_looks_like_a_pattern_is_resumed(any_model, tmp_path):
    train(any_model, tmp_path / "a[b]c*", num_steps=8)
    assert train(any_model, tmp_path / "a[b]c*", num_steps=12) == 8


def test_tensorboard_has_every_curve(whole):
    runs = read_curves(whole[1] / "logs")
    assert set(runs["train"]) == {
        "loss/total",
        "accuracy/total",
        "optimizer/learning_rate",
        "optimizer/gradient_norm",
        "speed/examples_per_second",
        "speed/tokens_per_second",
    }
    assert set(runs["held_out"]) == {"loss/total", "accuracy/total"}
    assert [step for step, _ in runs["train"]["loss/total"]] == [4, 8, 12, 16]
    assert [step for step, _ in runs["held_out"]["loss/total"]] == [8, 16]
    rate = dict(runs["train"]["optimizer/learning_rate"])
    assert rate[16] == pytest.approx(0.02 * (1 - 16 / 40))
    speed = dict(runs["train"]["speed/examples_per_second"])
    tokens = dict(runs["train"]["speed/tokens_per_second"])
    assert tokens[16] == pytest.approx(6 * speed[16], rel=1e-5)
    assert dict(runs["train"]["optimizer/gradient_norm"])[16] > 0


def test_the_last_epoch_is_scored(any_model, tmp_path):
    train(any_model, tmp_path, num_steps=11)
    held_out = read_curves(tmp_path / "logs")["held_out"]
    assert [step for step, _ in held_out["loss/total"]] == [8, 11]


def test_only_the_first_worker_writes(any_model, tmp_path, monkeypatch):
    strategy = type(tf.distribute.get_strategy().extended)
    monkeypatch.setattr(strategy, "should_checkpoint", False)
    called = []
    board = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: called.append(1))
    train(any_model, tmp_path, num_steps=4, board=[board])
    assert not called and not [*tmp_path.rglob("*")]


def test_tags_of_log_names():
    assert tag("val_masked_lm_accuracy") == "accuracy/masked_lm"
    assert tag("next_sentence_loss") == "loss/next_sentence"
    assert tag("loss") == "loss/total"


def test_curves_are_plotted(whole, tmp_path):
    with pytest.raises(InputError, match="nothing has no TensorBoard event files"):
        read_curves(tmp_path / "nothing")


def test_restoring_without_checkpoints_starts_at_step_0(tmp_path):
    model = compiled()
    model.optimizer.build(model.trainable_variables)
    assert TrainingCheckpoints(model, tmp_path, epochs_per_save=1, keep=1).restore() == 0


def test_a_full_disk_does_not_change_older_states(any_model, tmp_path, monkeypatch):
    train(any_model, tmp_path, num_steps=8)

    def full(self, prefix):
        Path(f"{prefix}_temp").mkdir()
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.train.Checkpoint, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        train(any_model, tmp_path, num_steps=16)
    assert not list((tmp_path / "checkpoints").glob("*_temp"))
    monkeypatch.undo()
    assert train(any_model, tmp_path, num_steps=16) == 8


CERTAIN = dataclasses.replace(CONFIG, hidden_dropout_rate=0.0, attention_dropout_rate=0.0)
METADATA = ModelMetadata(
    model="BertClassifier", config=CERTAIN, lowercase=True, max_length=8, labels=("no", "yes")
)


def fit(model, *, first: int, count: int) -> None:
    for x, y in batches().repeat().skip(first).take(count):
        model.train_on_batch(x, y)


def save(model, folder, *, format: str = "bert-keras") -> None:
    state = training_state(model)
    save_model(model, folder, metadata=METADATA, vocabulary=None, format=format, state=state)


@pytest.mark.slow
def test_three_steps_a_saved_folder_and_three_more_equal_six_steps(tmp_path):
    model = compiled(config=CERTAIN)
    fit(model, first=0, count=3)
    for format in ("bert-keras", "google"):
        save(model, tmp_path / format, format=format)
    fit(model, first=3, count=3)
    whole = values(model)
    for format in ("bert-keras", "google"):
        rest = compiled(seed=99, config=CERTAIN)
        rest.set_weights(load_model(tmp_path / format).get_weights())
        load_training_state(rest, open_checkpoint(tmp_path / format).state)
        assert int(rest.optimizer.iterations) == 3
        fit(rest, first=3, count=3)
        assert_same(values(rest), whole)


@pytest.mark.slow
def test_a_run_starts_at_the_step_of_the_optimizer_and_ends_at_num_steps(tmp_path):
    """The run starts at step 3 and ends at step 14; neither is the step of a log."""
    before = compiled()
    train(before, tmp_path / "before", num_steps=3)
    save(before, tmp_path / "start")
    state = open_checkpoint(tmp_path / "start").state

    def new_model():
        model = compiled()
        load_training_state(model, state)
        return model

    whole = new_model()
    assert train(whole, tmp_path / "whole", num_steps=14) == 3
    assert int(whole.optimizer.iterations) == 14
    unbroken = values(whole)
    steps = [step for step, _ in read_curves(tmp_path / "whole/logs")["train"]["loss/total"]]
    assert steps == [7, 11, 14]
    saved = {path.name.split(".")[0] for path in (tmp_path / "whole/checkpoints").glob("step-*")}
    assert saved == {"step-11", "step-14"}

    train(new_model(), tmp_path / "broken", num_steps=11)
    rest = new_model()
    assert train(rest, tmp_path / "broken", num_steps=14) == 11
    assert_same(values(rest), unbroken)


def test_all_problems_of_a_training_state_are_named():
    model = compiled()
    state = training_state(model)
    name = "encoder/pooler/bias"
    momentums = {n: t for n, t in state.momentums.items() if n != name}
    velocities = {**state.velocities, name: StoredTensor((3,), lambda: np.zeros(3))}
    broken = dataclasses.replace(state, step=7, momentums=momentums, velocities=velocities)
    with pytest.raises(InputError) as error:
        load_training_state(model, broken)
    assert f"the momentum of {name} is missing" in str(error.value)
    assert f"the velocity of {name} is (3,), expected (8,)" in str(error.value)
    assert int(model.optimizer.iterations) == 0
