"""A run's whole state out and in: weights, optimizer, step and the random state of dropout."""

import os
import shutil
from pathlib import Path

import keras
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.storage import tensorflow_writes


class TrainingCheckpoints(keras.callbacks.Callback):
    """Keeps the newest states of a run in `folder` and brings the newest one back.

    Saves every `epochs_per_save` Keras epochs and at the end. The model must be compiled with a
    built optimizer. The position in the data is the optimizer's step: datasets of this house are
    deterministic for a seed, so a run that continues skips what it has seen.
    """

    def __init__(
        self, model: keras.Model, folder: str | os.PathLike, *, epochs_per_save: int, keep: int
    ):
        super().__init__()
        self.epochs_per_save = epochs_per_save
        seeds = [v for v in model.variables if v.path.endswith("seed_generator_state")]
        weights = {f"model/{weight.path}": weight.value for weight in model.weights}
        slots = {f"optimizer/{slot.path}": slot.value for slot in model.optimizer.variables}
        dropout = {f"dropout/{index}": seed.value for index, seed in enumerate(seeds)}
        self.optimizer = model.optimizer
        self.checkpoint = tf.train.Checkpoint(**weights, **slots, **dropout)
        self.manager = tf.train.CheckpointManager(
            self.checkpoint, os.fspath(folder), max_to_keep=keep, checkpoint_name="step"
        )

    def restore(self) -> int:
        """The step of the newest state, now loaded; 0 where there is none yet."""
        newest = self.manager.latest_checkpoint
        if newest is None:
            return 0
        try:
            self.checkpoint.restore(newest).assert_consumed()
        except (tf.errors.OpError, AssertionError, ValueError, IndexError) as error:
            raise InputError(
                f"{newest} does not hold the state of this run ({str(error).splitlines()[0]}); "
                "remove it to continue from an older one, or choose another output folder"
            ) from error
        return int(self.optimizer.iterations)

    def save(self) -> None:
        """Raises OSError, with the older states as they were, where the disk is full."""
        try:
            with tensorflow_writes(self.manager.directory):
                self.manager.save(checkpoint_number=int(self.optimizer.iterations))
        finally:
            for half_written in Path(self.manager.directory).glob("*_temp"):
                shutil.rmtree(half_written)

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.epochs_per_save == 0:
            self.save()
