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
from bert_keras.distribution.replicas import number
from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError
from bert_keras.layers.recomputation import seed_states
from bert_keras.models.pretrained import named_weights, stored_weight
from bert_keras.storage import json_object, tensorflow_writes, write_text

# Of TensorFlow or Python, where the data end with an error.
_BROKEN_DATA = (
    *(tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError),
    UnicodeDecodeError,
)


class TrainingCheckpoints(keras.callbacks.Callback):
    """Keeps the newest states of a run in `folder` and restores the newest: weights, optimizer,
    step and the random state of dropout.

    Saves every `epochs_per_save` Keras epochs. The model must be compiled with a built optimizer.
    The position in the data is the optimizer's step: data sets are deterministic for a seed, so a
    run that continues skips what it has read.
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
        self.is_terminated = False  # whether SIGTERM came

    def restore(self) -> int:
        """Loads the newest state, if there is one, and returns the optimizer's step."""
        if newest := self.manager.latest_checkpoint:
            try:
                self.checkpoint.restore(newest).assert_consumed()
            except (tf.errors.OpError, AssertionError, ValueError, IndexError) as error:
                raise InputError(
                    f"{newest} does not hold the state of this run ({str(error).splitlines()[0]}); "
                    "remove it to continue from an older one, or choose another output folder"
                ) from error
        return number(self.optimizer.iterations)

    def save(self) -> None:
        """Saves the state, on the first of several workers. Raises OSError, with the older states
        as they were, where the disk is full."""
        if not is_chief():
            return
        try:
            with tensorflow_writes(self.manager.directory):
                self.manager.save(checkpoint_number=number(self.optimizer.iterations))
        finally:
            for half_written in Path(self.manager.directory).glob("*_temp"):
                shutil.rmtree(half_written)

    @contextlib.contextmanager
    def saving_on_interruption(self) -> Iterator[None]:
        """Saves the state where the data end with an error, and on SIGTERM, which a machine sends
        before it is taken away: the step is finished, and `fit` ends with SystemExit(143).

        Only the main thread can handle a signal; elsewhere SIGTERM ends the process at once.
        """

        def note(signal_number, frame):
            self.is_terminated = True

        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGTERM, note) if is_main else None
        try:
            yield
        except _BROKEN_DATA:  # a step without data has changed nothing
            self.save()
            raise
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, before)

    def on_train_batch_end(self, batch, logs=None):
        if self.is_terminated and batch + 1 < self.params["steps"]:  # else the epoch is ended first
            self._end()

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.epochs_per_save == 0:
            self.save()
        if self.is_terminated:
            self._end()

    def _end(self) -> None:
        self.save()
        raise SystemExit(128 + signal.SIGTERM)


def training_state(model: keras.Model) -> TrainingState:
    """Returns the state that another run can continue from, of a model compiled with BertAdamW.

    Arrays are read when asked for: write them before the next step. A weight that is not trained,
    such as the pooler of a masked-LM model, has no averages.
    """
    momentums, velocities = _averages(model)
    return TrainingState(
        step=number(model.optimizer.iterations),
        momentums={name: stored_weight(momentum) for name, momentum in momentums.items()},
        velocities={name: stored_weight(velocity) for name, velocity in velocities.items()},
    )


def load_training_state(model: keras.Model, state: TrainingState) -> None:
    """Loads averages and step into the model's BertAdamW. Averages of weights that it does not
    train are ignored.

    Raises:
        InputError: names every average that is missing or of another shape; nothing has changed.
    """
    momentums, velocities = _averages(model)
    assignments, faults = [], []
    for kind, variables, averages in (
        ("momentum", momentums, state.momentums),
        ("velocity", velocities, state.velocities),
    ):
        for name, variable in variables.items():
            shape, average = tuple(variable.shape), averages.get(name)
            if average is None:
                faults.append(f"the {kind} of {name} is missing")
            elif average.shape != shape:
                faults.append(f"the {kind} of {name} is {average.shape}, expected {shape}")
            else:
                assignments.append((variable, average))
    if faults:
        raise InputError(f"the training state does not fit the model: {'; '.join(faults)}")
    for variable, average in assignments:
        variable.assign(average.read())
    model.optimizer.iterations.assign(state.step)


def _averages(model: keras.Model) -> tuple[dict[str, keras.Variable], dict[str, keras.Variable]]:
    """Returns momentums and velocities by the public names of their weights."""
    optimizer, weights = model.optimizer, model.trainable_variables
    optimizer.build(weights)
    public_names = {weight.path: name for name, weight in named_weights(model).items()}
    names = [public_names[weight.path] for weight in weights]
    return (
        dict(zip(names, optimizer._momentums, strict=True)),
        dict(zip(names, optimizer._velocities, strict=True)),
    )


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
