"""Saves and restores the state of a run: periodically, on SIGTERM and at the best score."""

import contextlib
import json
import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import tensorflow as tf

from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.tensors import stored_weight
from bert_keras.distribution.replicas import scalar_value
from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError
from bert_keras.files import json_object, write_text
from bert_keras.layers.recomputation import seed_states
from bert_keras.models.pretrained import named_weights
from bert_keras.training.saved_states import SavedStates

# Errors of TensorFlow and Python that reading the data can raise.
_BROKEN_DATA = (
    *(tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError),
    UnicodeDecodeError,
)


class TrainingCheckpoints(keras.callbacks.Callback):
    """Saves the state of a run every `epochs_per_save` Keras epochs and restores the newest one.

    A state contains the weights, the optimizer with its step, and the random state of dropout. The
    position in the data is the optimizer's step: data sets are deterministic for a seed, so a
    resumed run skips the batches that it has read.

    Args:
        model: A compiled model with a built optimizer.
        folder: The folder of the states.
        epochs_per_save: The number of Keras epochs between two states.
        keep: The number of newest states to keep.
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
        checkpoint = tf.train.Checkpoint(**weights, **slots, **dropout)
        self.states = SavedStates(checkpoint, Path(folder), keep=keep)
        self.is_terminated = False  # whether the process has received SIGTERM

    def restore(self) -> int:
        """Loads the newest state, if there is one.

        Returns:
            The step of the optimizer.

        Raises:
            InputError: As `SavedStates.restore` does.
        """
        self.states.restore(is_chief=is_chief())
        return scalar_value(self.optimizer.iterations)

    def save(self) -> None:
        """Saves the state; only the first worker writes.

        Raises:
            OSError: The state cannot be written, for example because the disk is full. Older states
                are not changed.
        """
        if is_chief():
            self.states.save(scalar_value(self.optimizer.iterations))

    @contextlib.contextmanager
    def saving_on_interruption(self) -> Iterator[None]:
        """Saves the state if the data end with an error, and on SIGTERM.

        Cloud machines send SIGTERM before they are shut down. The current step is finished, the
        state is saved, and `fit` ends with SystemExit(143). Only the main thread can handle
        signals; in another thread SIGTERM ends the process immediately.
        """

        def on_signal(signal_number, frame):
            self.is_terminated = True

        is_main = threading.current_thread() is threading.main_thread()
        previous = signal.signal(signal.SIGTERM, on_signal) if is_main else None
        try:
            yield
        except _BROKEN_DATA:  # the step without data has changed nothing
            self.save()
            raise
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, previous)

    def on_train_batch_end(self, batch, logs=None):
        # In the last step of an epoch or of the run, on_epoch_end handles the signal.
        is_last = batch + 1 == self.params["steps"] or self.model.stop_training
        if self.is_terminated and not is_last:
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
    """Returns the training state of a model, from which another run can continue.

    The arrays are read lazily, so they must be written before the next step. Weights that are not
    trained, such as the pooler of a masked-LM model, have no averages.

    Args:
        model: A model compiled with a BertOptimizer.
    """
    momentums, velocities = _averages(model)
    return TrainingState(
        step=scalar_value(model.optimizer.iterations),
        momentums={name: stored_weight(momentum) for name, momentum in momentums.items()},
        velocities={name: stored_weight(velocity) for name, velocity in velocities.items()},
    )


def load_training_state(model: keras.Model, state: TrainingState) -> None:
    """Loads a training state into the optimizer of a model. Averages of untrained weights are
    ignored.

    Args:
        model: A model compiled with a BertOptimizer.
        state: The state of another run.

    Raises:
        InputError: An average is missing or has another shape. The error names all such averages,
            and nothing is changed.
    """
    momentums, velocities = _averages(model)
    assignments, problems = [], []
    for kind, variables, averages in (
        ("momentum", momentums, state.momentums),
        ("velocity", velocities, state.velocities),
    ):
        for name, variable in variables.items():
            shape, average = tuple(variable.shape), averages.get(name)
            if average is None:
                problems.append(f"the {kind} of {name} is missing")
            elif average.shape != shape:
                problems.append(f"the {kind} of {name} is {average.shape}, expected {shape}")
            else:
                assignments.append((variable, average))
    if problems:
        raise InputError(f"the training state does not fit the model: {'; '.join(problems)}")
    for variable, average in assignments:
        variable.assign(average.read())
    model.optimizer.iterations.assign(state.step)


def _averages(model: keras.Model) -> tuple[dict[str, keras.Variable], dict[str, keras.Variable]]:
    """Returns the momentums and velocities by the public names of their weights.

    Muon keeps no velocities of matrices.
    """
    optimizer, weights = model.optimizer, model.trainable_variables
    optimizer.build(weights)
    public_names = {weight.path: name for name, weight in named_weights(model).items()}
    names = [public_names[weight.path] for weight in weights]
    return (
        dict(zip(names, optimizer._momentums, strict=True)),
        {
            name: velocity
            for name, velocity in zip(names, optimizer._velocities, strict=True)
            if velocity is not None
        },
    )


SCORES = "scores.json"


class BestModel(keras.callbacks.Callback):
    """Saves the model whenever `val_loss` reaches a new minimum.

    Args:
        folder: The folder of the best model. Its scores.json contains the step and the loss.
        save: Saves the model to a new folder, which then replaces `folder`.
    """

    def __init__(self, folder: Path, save: Callable[[Path], object]):
        super().__init__()
        self.folder, self.save = folder, save
        self.scores = {"step": 0, "held_out_loss": math.inf}
        if folder.is_dir():
            self._read()

    def _read(self) -> None:
        path = self.folder / SCORES
        try:
            scores = json_object(path)
            self.scores = {"step": scores["step"], "held_out_loss": float(scores["held_out_loss"])}
        except (InputError, KeyError, TypeError, ValueError):
            print(
                f"WARNING: {path} is missing or damaged; the next model that is scored replaces "
                f"{self.folder}",
                file=sys.stderr,
            )

    def on_epoch_end(self, epoch, logs=None):
        loss = (logs or {}).get("val_loss", math.nan)
        if not loss < self.scores["held_out_loss"]:
            return
        self.scores = {"step": scalar_value(self.model.optimizer.iterations), "held_out_loss": loss}
        if not is_chief():
            return
        temporary, old = (
            self.folder.with_name(f".{self.folder.name}.{name}.part") for name in ("new", "old")
        )
        for part in (temporary, old):
            shutil.rmtree(part, ignore_errors=True)
        self.save(temporary)
        write_text(temporary / SCORES, json.dumps(self.scores, indent=2) + "\n")
        if self.folder.exists():
            self.folder.rename(old)
        temporary.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)
