"""Saves and restores the state of a run: periodically, on SIGTERM and before an error."""

import contextlib
import math
import re
import signal
import sys
import threading
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras.checkpoints.checkpoint import TrainingState, weight_part
from bert_keras.checkpoints.tensors import named_weights, stored_weight
from bert_keras.distribution.strategy import (
    is_chief,
    num_processes,
    received_sigterm,
    wait_for_workers,
)
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, atomic_file
from bert_keras.layers.block import seed_states
from bert_keras.training.callbacks import synchronize

MAX_LOSS_RATIO = 2.0  # a run stops if its loss exceeds its lowest loss by this factor


def write_arrays(path: StrPath, arrays: Mapping[str, Any]) -> None:
    """Writes variables and scalars by name as an .npz file, one after another."""
    with atomic_file(path) as part, zipfile.ZipFile(part, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.save(file, np.asarray(array))


def saved_steps(folder: Path) -> list[int]:
    """Returns the steps whose states are in a folder, in ascending order."""
    names = (re.fullmatch(r"step-(\d+)\.npz", path.name) for path in folder.glob("step-*"))
    return sorted(int(name[1]) for name in names if name)


class TrainingCheckpoints(keras.callbacks.Callback):
    """Saves the state of a run every `epochs_per_save` Keras epochs and restores the newest one.

    A state is a file step-N.npz with arrays by name, for any backend: the weights, the optimizer
    with its step, the random state of dropout, and the lowest loss of an epoch. The order of the
    data follows from the seed, so a resumed run skips as many batches as the optimizer has steps.

    Args:
        model: The compiled model, whose optimizer must be built.
        epochs_per_save: Keras epochs between two states.
        keep: The number of newest states to keep.
    """

    def __init__(self, model: keras.Model, folder: Path, *, epochs_per_save: int, keep: int):
        super().__init__()
        self.folder, self.epochs_per_save, self.keep = folder, epochs_per_save, keep
        self.optimizer = model.optimizer
        self.variables = {
            **{f"model/{weight.path}": weight for weight in model.weights},
            **{f"optimizer/{slot.path}": slot for slot in model.optimizer.variables},
            **{f"dropout/{index}": seed for index, seed in enumerate(seed_states(model))},
        }
        self.lowest_loss = math.inf  # the lowest mean loss of an epoch; see `Guard`
        self.received_sigterm, self.num_batches = False, 0

    def restore(self) -> int:
        """Loads the newest state that can be read, if any; returns the optimizer's step."""
        steps = saved_steps(self.folder)
        if len(wait_for_workers(step=max(steps, default=0))) > 1:
            raise unusable_error(self.folder, "differs between the workers, which must share it")
        for step in reversed(steps):
            path = self.folder / f"step-{step}.npz"
            try:
                with zipfile.ZipFile(path) as archive:
                    problem = archive.testzip()  # the first member with a wrong checksum, or None
            except (OSError, zipfile.BadZipFile) as error:
                problem = str(error)
            if problem is not None:
                print(f"WARNING: {path} is damaged ({problem}); it is ignored", file=sys.stderr)
                continue
            with np.load(path) as arrays:
                self._check_shapes(path, arrays)
                for name, variable in self.variables.items():
                    variable.assign(arrays[name])
                self.lowest_loss = float(arrays["lowest_loss"])
            if is_chief():
                self._delete_old()
            return self.step
        if steps:
            raise unusable_error(self.folder, "has no state that can be read")
        return self.step

    def _check_shapes(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        """Raises InputError unless a state has the names and shapes of this run's variables."""
        stored = {name: array.shape for name, array in arrays.items()}
        own = {name: tuple(v.shape) for name, v in self.variables.items()} | {"lowest_loss": ()}
        for name in own | stored:
            found, needed = (shapes.get(name, "missing") for shapes in (stored, own))
            if found != needed:
                raise unusable_error(path, f"does not fit: {name} is {found}, in this run {needed}")

    @property
    def step(self) -> int:
        """The step of the optimizer."""
        return int(self.optimizer.iterations.numpy())

    def save(self) -> None:
        """Saves the state and deletes the oldest ones; only the first worker does this."""
        if not is_chief():
            return
        path = self.folder / f"step-{self.step}.npz"
        write_arrays(path, {**self.variables, "lowest_loss": self.lowest_loss})
        self._delete_old()

    def _delete_old(self) -> None:
        """Deletes all but the newest states, and the partial state of a killed run."""
        old = [self.folder / f"step-{step}.npz" for step in saved_steps(self.folder)[: -self.keep]]
        for path in (*old, *self.folder.glob(".step-*.part")):
            path.unlink()

    @contextlib.contextmanager
    def saving_on_sigterm(self) -> Iterator[None]:
        """Saves the state on SIGTERM, which cloud machines send before they are shut down.

        The current step is finished, the state is saved, and `fit` ends with SystemExit(143). Only
        the main thread can handle signals; in another thread SIGTERM ends the process immediately.
        Several processes of JAX all end at one step, even if only one of them received the signal.
        """
        if threading.current_thread() is not threading.main_thread() or num_processes() > 1:
            yield
            return

        def on_signal(signal_number, frame):
            self.received_sigterm = True

        previous = signal.signal(signal.SIGTERM, on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)

    def on_train_batch_end(self, batch: int, logs: dict | None = None):
        # In the last step of an epoch or of the run, on_epoch_end handles the signal.
        is_last = batch + 1 == self.params["steps"] or self.model.stop_training
        self.num_batches += 1
        self.received_sigterm |= received_sigterm(self.num_batches)
        if self.received_sigterm and not is_last:
            self._end()

    def on_epoch_end(self, epoch: int, logs: dict | None = None):
        if (epoch + 1) % self.epochs_per_save == 0:
            self.save()
        if self.received_sigterm:
            self._end()

    def _end(self) -> None:
        synchronize(self.model)
        self.save()
        raise SystemExit(128 + signal.SIGTERM)


def unusable_error(path: Path, reason: str) -> InputError:
    """Returns the error of a file or folder of a run that cannot be continued."""
    return InputError(f"{path} {reason}; choose another output folder to train anew")


class Guard(keras.callbacks.Callback):
    """Stops `fit` with InputError after non-finite gradients or an exploding loss.

    At the end of every Keras epoch it checks whether more than `max_skipped` steps of the epoch had
    non-finite gradients, and whether the mean loss is over twice the lowest mean loss of an earlier
    epoch. After non-finite gradients, which change no weight, the state is saved and the same run
    can continue. After an exploding loss the state is not saved.
    """

    def __init__(self, checkpoints: TrainingCheckpoints, *, max_skipped: int):
        super().__init__()
        self.checkpoints, self.max_skipped = checkpoints, max_skipped

    def on_train_begin(self, logs: dict | None = None):
        self.num_skipped = int(self.model.optimizer.skipped.numpy())

    def on_epoch_end(self, epoch: int, logs: dict | None = None):
        optimizer, checkpoints = self.model.optimizer, self.checkpoints
        loss, lowest = (logs or {}).get("loss", math.nan), checkpoints.lowest_loss
        skipped = int(optimizer.skipped.numpy()) - self.num_skipped
        self.num_skipped += skipped
        if skipped > self.max_skipped:
            checkpoints.save()
            raise InputError(
                f"the gradients of {counted(skipped, 'step')} are not finite, the last at step "
                f"{int(optimizer.last_skipped.numpy()):,}; the state is saved: continue, or start "
                "again in another folder with a lower learning_rate or max_skipped above 0"
            )
        if loss > MAX_LOSS_RATIO * lowest:
            raise InputError(
                f"the loss is {loss:.4g} at step {checkpoints.step:,}; the lowest epoch mean so "
                f"far was {lowest:.4g}; start again in another folder with a lower learning_rate "
                "or a longer warmup"
            )
        checkpoints.lowest_loss = min(loss, lowest) if math.isfinite(loss) else lowest


def training_state(model: keras.Model) -> TrainingState:
    """Returns the training state of a model with a BertAdamW, from which another run can start.

    The arrays are read lazily, so they must be written before the next step. Weights that are not
    trained, such as the pooler of a masked-LM model, have no averages.
    """
    momentums, velocities = (
        {name: stored_weight(variable) for name, variable in averages.items()}
        for averages in _averages(model)
    )
    step = int(model.optimizer.iterations.numpy())
    return TrainingState(step=step, momentums=momentums, velocities=velocities)


def load_training_state(
    model: keras.Model, state: TrainingState, *, new: Collection[str] = ()
) -> None:
    """Loads a training state into the BertAdamW of a model, without averages of frozen weights.

    The parts `new` (pooler, heads) keep their own averages. An error leaves the model unchanged.
    """
    stored = {"momentum": state.momentums, "velocity": state.velocities}
    pairs: dict[str, tuple[keras.Variable, Any]] = {
        f"the {average} of {name}": (variable, stored[average].get(name))
        for average, variables in zip(stored, _averages(model), strict=True)
        for name, variable in variables.items()
        if weight_part(name) not in new
    }
    problems = [
        f"{average} is {found.shape if found else 'missing'}"
        for average, (variable, found) in pairs.items()
        if found is None or found.shape != tuple(variable.shape)
    ]
    if problems:
        raise InputError(f"the training state does not fit the model: {'; '.join(problems)}")
    for variable, found in pairs.values():
        variable.assign(found.read())
    model.optimizer.iterations.assign(state.step)


def _averages(model: keras.Model) -> tuple[dict[str, keras.Variable], dict[str, keras.Variable]]:
    """Returns the momentums and velocities by the public names of their weights."""
    optimizer, weights = model.optimizer, model.trainable_variables
    optimizer.build(weights)
    public_names = {weight.path: name for name, weight in named_weights(model).items()}
    names = [public_names[weight.path] for weight in weights]
    velocities = zip(names, optimizer.velocities, strict=True)
    # Muon's matrices have no velocity.
    velocities = {name: each for name, each in velocities if each is not None}
    return dict(zip(names, optimizer.momentums, strict=True)), velocities
