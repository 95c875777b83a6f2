"""Saves and restores the state of a run, at intervals, on SIGTERM and at its best score."""

import contextlib
import json
import math
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import tensorflow as tf

from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.distribution.replicas import number
from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError
from bert_keras.layers.recomputation import seed_states
from bert_keras.models.pretrained import named_weights, stored_weight
from bert_keras.storage import json_object, tensorflow_writes, write_text


class TrainingCheckpoints(keras.callbacks.Callback):
    """Keeps the newest states of a run in `folder` and brings the newest one back: weights,
    optimizer, step and the random state of dropout.

    Saves every `epochs_per_save` Keras epochs and at the end. The model must be compiled with a
    built optimizer. The position in the data is the optimizer's step: datasets of this house are
    deterministic for a seed, so a run that continues skips what it has seen.
    """

    def __init__(
        self, model: keras.Model, folder: str | os.PathLike, *, epochs_per_save: int, keep: int
    ):
        super().__init__()
        self.epochs_per_save = epochs_per_save
        weights = {f"model/{weight.path}": weight.value for weight in model.weights}
        slots = {f"optimizer/{slot.path}": slot.value for slot in model.optimizer.variables}
        dropout = {f"dropout/{index}": seed.value for index, seed in enumerate(seed_states(model))}
        self.optimizer = model.optimizer
        self.checkpoint = tf.train.Checkpoint(**weights, **slots, **dropout)
        _ = self.checkpoint.save_counter  # a variable, which all workers have to make together
        self.manager = tf.train.CheckpointManager(
            self.checkpoint, os.fspath(folder), max_to_keep=keep, checkpoint_name="step"
        )

    def restore(self) -> int:
        """The step of the newest state, now loaded; the optimizer's own where there is none yet."""
        newest = self.manager.latest_checkpoint
        if newest is None:
            return number(self.optimizer.iterations)
        try:
            self.checkpoint.restore(newest).assert_consumed()
        except (tf.errors.OpError, AssertionError, ValueError, IndexError) as error:
            raise InputError(
                f"{newest} does not hold the state of this run ({str(error).splitlines()[0]}); "
                "remove it to continue from an older one, or choose another output folder"
            ) from error
        return number(self.optimizer.iterations)

    def save(self) -> None:
        """By the first of several workers. Raises OSError, with the older states as they were,
        where the disk is full."""
        if not is_chief():
            return
        try:
            with tensorflow_writes(self.manager.directory):
                self.manager.save(checkpoint_number=number(self.optimizer.iterations))
        finally:
            for half_written in Path(self.manager.directory).glob("*_temp"):
                shutil.rmtree(half_written)

    @contextlib.contextmanager
    def saving_where_data_break(self) -> Iterator[None]:
        """A step that got no data changed nothing: what came before is saved."""
        broken = (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError)
        try:
            yield
        except (*broken, UnicodeDecodeError):
            self.save()
            raise

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.epochs_per_save == 0:
            self.save()


def training_state(model: keras.Model) -> TrainingState:
    """Of a model of this house that is compiled with BertAdamW: what another run can go on from.

    Arrays are read when asked for: write them before the next step. A weight that is not trained,
    such as the pooler of a model of words, has no averages.
    """
    slots = _averages(model)
    return TrainingState(
        step=number(model.optimizer.iterations),
        momentums={name: stored_weight(momentum) for name, (momentum, _) in slots.items()},
        velocities={name: stored_weight(velocity) for name, (_, velocity) in slots.items()},
    )


def load_training_state(model: keras.Model, state: TrainingState) -> None:
    """Averages and step into the model's BertAdamW; those of weights that it does not train are
    left over. Raises InputError that names every one missing or misshapen; nothing has changed
    then.
    """
    slots = _averages(model)
    places = {
        f"{kind} of {name}": (pair[index], averages.get(name))
        for index, (kind, averages) in enumerate(
            (("momentum", state.momentums), ("velocity", state.velocities))
        )
        for name, pair in slots.items()
    }
    faults = [told for told in map(_fault, places, places.values()) if told]
    if faults:
        raise InputError(f"the training state does not fit the model: {'; '.join(faults)}")
    for variable, stored in places.values():
        if stored is not None:
            variable.assign(stored.read())
    model.optimizer.iterations.assign(state.step)


def _fault(name: str, place: tuple[keras.Variable, StoredTensor | None]) -> str:
    variable, stored = place
    if stored is None:
        return f"the {name} is missing"
    if stored.shape != tuple(variable.shape):
        return f"the {name} is {stored.shape}, expected {tuple(variable.shape)}"
    return ""


def _averages(model: keras.Model) -> dict[str, tuple[keras.Variable, keras.Variable]]:
    """Momentum and velocity by the public name of their weight."""
    optimizer, weights = model.optimizer, model.trainable_variables
    optimizer.build(weights)
    names = {weight.path: name for name, weight in named_weights(model).items()}
    return {
        names[weight.path]: (momentum, velocity)
        for weight, momentum, velocity in zip(
            weights, optimizer._momentums, optimizer._velocities, strict=True
        )
    }


class SaveOnTermination(keras.callbacks.Callback):
    """On SIGTERM, which a machine sends before it is taken away, the step is finished and the state
    saved; `fit` ends with SystemExit(143), as a shell tells of SIGTERM.
    """

    def __init__(self, checkpoints: TrainingCheckpoints):
        super().__init__()
        self.checkpoints = checkpoints
        self.asked = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Python lets the main thread alone listen; elsewhere SIGTERM ends the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def on_train_batch_end(self, batch, logs=None):
        if self.asked and batch + 1 < self.params["steps"]:  # else the epoch is ended first
            self._end()

    def on_epoch_end(self, epoch, logs=None):
        if self.asked:
            self._end()

    def _end(self) -> None:
        self.checkpoints.save()
        raise SystemExit(128 + signal.SIGTERM)

    def _note(self, number, frame) -> None:
        self.asked = True


SCORES = "scores.json"


class BestModel(keras.callbacks.Callback):
    """Calls `save` with a new folder, which becomes `folder`, where `val_loss` is lower than ever;
    scores.json in it tells the step and the loss."""

    def __init__(self, folder: Path, save: Callable[[Path], object]):
        super().__init__()
        self.folder, self.save = folder, save
        self.scores = {"step": 0, "held_out_loss": math.inf}
        if (folder / SCORES).is_file():
            self.scores = json_object(folder / SCORES)

    def on_epoch_end(self, epoch, logs=None):
        loss = (logs or {}).get("val_loss", math.nan)
        if not loss < self.scores["held_out_loss"]:
            return
        self.scores = {"step": number(self.model.optimizer.iterations), "held_out_loss": loss}
        if not is_chief():
            return
        beside = self.folder.with_name(f".{self.folder.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        self.save(beside)
        write_text(beside / SCORES, json.dumps(self.scores, indent=2) + "\n")
        shutil.rmtree(self.folder, ignore_errors=True)
        beside.rename(self.folder)
