"""The first and last step to look at in, a profile of where their time goes out."""

import os
import re

import keras
import tensorflow as tf

from bert_keras.distribution.replicas import number
from bert_keras.errors import InputError


def steps_to_profile(told: str) -> tuple[int, int]:
    """ "10:20" -> (10, 20), both included and counted from 1. Raises InputError for all else."""
    found = re.fullmatch(r"(\d+):(\d+)", told)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(
            f"{told!r} names no steps to profile; expected FIRST:LAST, counted from 1, such as "
            "20:25"
        )
    return int(found[1]), int(found[2])


class Profile(keras.callbacks.Callback):
    """Profiles the steps `first` to `last`, as the optimizer counts them from 1, into `folder`.

    A run that goes on from a step behind `first` is not profiled; one that ends before `last` is,
    up to its end.
    """

    def __init__(self, folder: str | os.PathLike, *, first: int, last: int):
        super().__init__()
        self.folder, self.first, self.last = os.fspath(folder), first, last
        self.runs = False

    def on_train_begin(self, logs=None):
        self.step = number(self.model.optimizer.iterations)

    def on_train_batch_begin(self, batch, logs=None):
        self.step += 1
        if self.step == self.first:
            tf.profiler.experimental.start(self.folder)
            self.runs = True

    def on_train_batch_end(self, batch, logs=None):
        if self.step == self.last:
            self._stop()

    def on_train_end(self, logs=None):
        self._stop()

    def _stop(self) -> None:
        if self.runs:
            tf.profiler.experimental.stop()
            self.runs = False
