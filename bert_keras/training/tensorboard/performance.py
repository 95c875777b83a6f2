"""Operations per example, utilisation of the hardware, and a profile of some steps."""

import math
import os
import re
import time

import keras
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.distribution.replicas import number
from bert_keras.errors import InputError
from bert_keras.training.callbacks import Pace


def flops_per_example(config: BertConfig, length: int, num_predictions: int) -> int:
    """Of forward and backward over one row of `length` positions, padding as all else.

    Forward, an addition and a multiplication being 2 operations, of D hidden, F intermediate,
    E embedding (D in BERT), V pieces, T = `length`, P = `num_predictions`:

        each layer              T (8 D^2 + 4 D F) + 4 T^2 D
        pooler, next sentence   2 D^2 + 4 D              where the config has a pooler
        masked LM               P (2 D E + 2 E V)        its gathered positions alone
        embeddings projected    2 T E D                  where E is the config's own

    Backward is twice that: a product has two gradients. What is computed twice to save memory
    counts once; look-ups, norms, softmax and the update not at all (Chowdhery et al. 2022, "PaLM",
    appendix B).
    """
    size, intermediate = config.hidden_size, config.intermediate_size
    dense = length * (8 * size**2 + 4 * size * intermediate)
    forward = config.num_layers * (dense + 4 * length**2 * size)
    if config.has_pooler:
        forward += 2 * size**2 + 4 * size
    embedding = config.embedding_size or size
    forward += num_predictions * (2 * size * embedding + 2 * embedding * config.vocab_size)
    if config.embedding_size:
        forward += 2 * length * embedding * size
    return 3 * forward


_SIZES = (512, 1024, 2048, 4096, 8192)  # of the square matrices that the peak is measured with
_ENOUGH = 0.01  # seconds that one product takes: a larger one would not be faster


def peak_flops_per_second(dtype: str) -> float:
    """What one device of this machine reaches in a large product of matrices: measured, the best of
    a fifth of a second."""
    for size in _SIZES:
        square = tf.cast(tf.random.stateless_normal((size, size), seed=(1, 2)), dtype)
        _seconds(square, products=1)  # the first may choose its algorithm
        if (best := _seconds(square, products=1)) >= _ENOUGH:
            break
    products = math.ceil(_ENOUGH / best)  # in a row: a GPU is told of the next while it computes
    end = time.perf_counter() + 0.2
    while time.perf_counter() < end:
        best = min(best, _seconds(square, products=products))
    return 2 * size**3 / best


def _seconds(square: tf.Tensor, *, products: int) -> float:
    """Of one product."""
    start = time.perf_counter()
    for _ in range(products):
        product = tf.matmul(square, square)
    product[0, 0].numpy()  # waits
    return (time.perf_counter() - start) / products


class ModelFlopsUtilisation(keras.callbacks.Callback):
    """Puts speed/model_flops_per_second and speed/model_flops_utilisation into the logs of an
    epoch, for the callbacks behind this one.

    The utilisation is the first by the peak of one device, measured when the training begins in the
    dtype that the model computes in, times the number of replicas.
    """

    peak = 0.0  # until it is measured

    def __init__(self, *, flops_per_step: float):
        super().__init__()
        self.flops_per_step = flops_per_step
        self.pace = Pace()

    def on_train_begin(self, logs=None):
        if not self.peak:
            replicas = self.model.distribute_strategy.num_replicas_in_sync
            self.peak = replicas * peak_flops_per_second(self.model.compute_dtype)

    def on_epoch_begin(self, epoch, logs=None):
        self.pace.restart()

    def on_train_batch_end(self, batch, logs=None):
        self.pace.step()

    def on_epoch_end(self, epoch, logs: dict):  # Keras always gives them
        if flops := self.pace.steps_per_second * self.flops_per_step:
            logs["speed/model_flops_per_second"] = flops
            logs["speed/model_flops_utilisation"] = flops / self.peak


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
