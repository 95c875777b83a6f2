"""Counts operations per example, measures the peak of the hardware, and profiles some steps."""

import math
import os
import re
import time

import keras
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.distribution.replicas import number
from bert_keras.errors import InputError


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


_ENOUGH = 0.01  # seconds that one product takes: a larger one would not be faster


def peak_flops_per_second(dtype: str) -> float:
    """Measures what one device of this machine reaches in a large product of square matrices: the
    best of a fifth of a second."""
    for size in (512, 1024, 2048, 4096, 8192):
        square = tf.cast(tf.random.stateless_normal((size, size), seed=(1, 2)), dtype)
        _seconds(square, products=1)  # the first may choose its algorithm
        if (best := _seconds(square, products=1)) >= _ENOUGH:
            break
    products = math.ceil(_ENOUGH / best)  # in a row: a GPU gets the next while it computes
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


def steps_to_profile(text: str) -> tuple[int, int]:
    """Reads "10:20" as (10, 20), both included and counted from 1. Raises InputError for all
    else."""
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(
            f"{text!r} names no steps to profile; expected FIRST:LAST, counted from 1, such as "
            "20:25"
        )
    return int(found[1]), int(found[2])


class Profile(keras.callbacks.Callback):
    """Profiles the steps `first` to `last`, as the optimizer counts them from 1, into `folder`.

    A run that continues after `first` is not profiled; one that ends before `last` is, to its end.
    """

    def __init__(self, folder: str | os.PathLike, *, first: int, last: int):
        super().__init__()
        self.folder, self.first, self.last = os.fspath(folder), first, last
        self.is_running = False

    def on_train_begin(self, logs=None):
        # Counted here from now on: reading the optimizer's step would wait for the device.
        self.step = number(self.model.optimizer.iterations)

    def on_train_batch_begin(self, batch, logs=None):
        self.step += 1
        if self.step == self.first:
            tf.profiler.experimental.start(self.folder)
            self.is_running = True

    def on_train_batch_end(self, batch, logs=None):
        if self.step == self.last:
            self.on_train_end()

    def on_train_end(self, logs=None):
        if self.is_running:
            tf.profiler.experimental.stop()
            self.is_running = False
