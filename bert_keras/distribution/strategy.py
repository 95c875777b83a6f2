"""Selects the distribution strategy and reads TF_CONFIG."""

import contextlib
import functools
import json
import os
from collections.abc import Iterator

import tensorflow as tf

from bert_keras.errors import InputError, check, check_name

STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")


def workers() -> list[str]:
    """Returns the addresses (HOST:PORT) of all workers; an empty list without TF_CONFIG."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return [*cluster.get("chief", []), *cluster.get("worker", [])]


def check_one_machine() -> None:
    """Raises InputError if TF_CONFIG names several workers, of which only the first has scores."""
    check(len(workers()) < 2, "a study of several runs trains on one machine; unset TF_CONFIG")


def is_chief() -> bool:
    """Returns whether this process writes the results of a run.

    This is the case for a single process and for the first worker of the current strategy.
    """
    return tf.distribute.get_strategy().extended.should_checkpoint


@contextlib.contextmanager
def interrupted_by_lost_worker() -> Iterator[None]:
    """Turns TensorFlow's error about a worker that has ended into a KeyboardInterrupt.

    Without several workers, all errors are raised unchanged.
    """
    try:
        yield
    except (
        *(tf.errors.UnavailableError, tf.errors.AbortedError),
        *(tf.errors.CancelledError, tf.errors.DeadlineExceededError),
    ):
        if len(workers()) < 2:
            raise
        raise KeyboardInterrupt(
            "the connection to another worker was lost; start all workers again with the same "
            "command, which continues from the newest saved state"
        ) from None


def named_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """Returns a TensorFlow distribution strategy. Call it before TensorFlow computes anything.

    Args:
        name: `one`: one device. `mirrored`: all GPUs of this machine, or all its logical CPUs.
            `multiworker`: all workers that TF_CONFIG names, each with all of its GPUs. `auto`:
            `multiworker` if TF_CONFIG names several workers, `mirrored` if there are several GPUs,
            otherwise `one`.

    Raises:
        InputError: The name is unknown, or cannot be used here.
    """
    check_name(name, STRATEGIES, what="strategy")
    gpus = tf.config.list_physical_devices("GPU")
    if name == "auto":
        name = "multiworker" if len(workers()) > 1 else "mirrored" if len(gpus) > 1 else "one"
    if name == "multiworker":
        check(
            workers(),
            "multiworker needs TF_CONFIG, which is not set; set it on every worker, with the index "
            'of the worker, as in {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": '
            '"worker", "index": 0}}',
        )
        return _Workers()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
        return _mirrored(*(device.name for device in devices))
    if name == "tpu":
        raise InputError(
            f"TensorFlow {tf.__version__} has no TPUs, the last with them is 2.19; Keras trains on "
            "TPUs with JAX: set KERAS_BACKEND=jax and call fit"
        )
    return tf.distribute.get_strategy()


class _Workers(tf.distribute.MultiWorkerMirroredStrategy):
    """The strategy for several workers, with which Keras 3.15 can train.

    `fit` reduces the logs, which are scalars, along their first axis (keras-team/keras, issue
    20585). `GlobalBatchModel` has the other change that it needs.
    """

    def reduce(self, reduce_op, value, axis):
        is_scalar = self.experimental_local_results(value)[0].shape.rank == 0
        return super().reduce(reduce_op, value, None if is_scalar else axis)


@functools.cache  # the sums of a second strategy of the same devices would collide with its own
def _mirrored(*devices: str) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(devices)
