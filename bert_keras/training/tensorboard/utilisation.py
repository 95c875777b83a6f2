"""A config and the pace of the steps in, the share of the machine's peak that they use out."""

import math
import time

import keras
import tensorflow as tf

from bert_keras.training.pace import Pace

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

    peak = None

    def __init__(self, *, flops_per_step: float):
        super().__init__()
        self.flops_per_step = flops_per_step
        self.pace = Pace()

    def on_train_begin(self, logs=None):
        if self.peak is None:
            replicas = self.model.distribute_strategy.num_replicas_in_sync
            self.peak = replicas * peak_flops_per_second(self.model.compute_dtype)

    def on_epoch_begin(self, epoch, logs=None):
        self.pace.restart()

    def on_train_batch_end(self, batch, logs=None):
        self.pace.step()

    def on_epoch_end(self, epoch, logs=None):
        if flops := self.pace.steps_per_second * self.flops_per_step:
            logs["speed/model_flops_per_second"] = flops
            logs["speed/model_flops_utilisation"] = flops / self.peak
