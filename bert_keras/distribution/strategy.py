"""Selects the devices of a run, and reads TF_CONFIG."""

import contextlib
import functools
import json
import os
from contextlib import AbstractContextManager

import keras

from bert_keras.distribution import STRATEGIES
from bert_keras.errors import InputError, check_name


def workers() -> list[str]:
    """Returns the addresses (HOST:PORT) of all workers, or an empty list without TF_CONFIG."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return [*cluster.get("chief", []), *cluster.get("worker", [])]


def check_one_machine() -> None:
    """Raises InputError if TF_CONFIG names several workers."""
    if len(workers()) > 1:
        raise InputError("this command trains on one machine only; unset TF_CONFIG")


def is_chief() -> bool:
    """Returns whether this process writes results: a single process, or the first worker."""
    if keras.config.backend() != "tensorflow":
        return True
    import tensorflow as tf

    return tf.distribute.get_strategy().extended.should_checkpoint


def num_devices() -> int:
    """Returns the number of devices over which the current strategy divides a batch."""
    if keras.config.backend() != "tensorflow":
        distribution = keras.distribution.distribution()
        return 1 if distribution is None else distribution.device_mesh.devices.size
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def strategy_scope(name: str = "auto") -> AbstractContextManager:
    """Returns the scope in which to build and train models on the devices that `name` selects.

    `one`: one device. `mirrored`: all GPUs of this machine, or all its logical CPUs; with JAX all
    devices. `tpu`: all TPUs, with JAX. `multiworker`: all workers that TF_CONFIG names, each with
    all of its GPUs, with TensorFlow. `auto`: `multiworker` if TF_CONFIG names several workers,
    `mirrored` if there are several GPUs or, with JAX, several devices, otherwise `one`. Call it
    before the backend computes anything.
    """
    check_name(name, STRATEGIES, what="strategy")
    backend, num_workers = keras.config.backend(), len(workers())
    is_tensorflow = backend == "tensorflow"
    devices = [] if is_tensorflow else keras.distribution.list_devices()
    has_workers = name == "multiworker" or (num_workers > 1 and not is_tensorflow)
    if has_workers and not (is_tensorflow and num_workers):
        raise InputError(
            f"the backend is {backend}; multiworker needs tensorflow and, per worker, TF_CONFIG="
            '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'
        )
    if name == "tpu" and not any(device.startswith("tpu") for device in devices):
        raise InputError(f"{backend} finds no TPU; set KERAS_BACKEND=jax and install jax[tpu]")
    if is_tensorflow:
        return named_strategy(name).scope()
    if name == "one" or len(devices) == 1:
        return contextlib.nullcontext()
    return keras.distribution.DataParallel(devices=devices).scope()


def named_strategy(name: str = "auto"):
    """Returns the strategy of TensorFlow that a name selects; see `strategy_scope`."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if name == "auto":
        name = "multiworker" if len(workers()) > 1 else "mirrored" if len(gpus) > 1 else "one"
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
        return _mirrored_strategy(*(device.name for device in devices))
    if name == "one":
        return tf.distribute.get_strategy()

    class Workers(tf.distribute.MultiWorkerMirroredStrategy):
        # Keras' `fit` reduces scalar logs along their first axis (keras-team/keras, issue 20585).
        def reduce(self, reduce_op, value, axis):
            is_scalar = self.experimental_local_results(value)[0].shape.rank == 0
            return super().reduce(reduce_op, value, None if is_scalar else axis)

    return Workers()


@functools.cache  # the sums of two strategies on the same devices would collide
def _mirrored_strategy(*devices: str):
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(devices)
