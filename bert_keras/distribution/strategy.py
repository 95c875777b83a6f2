"""Selects the distribution strategy and reads TF_CONFIG."""

import contextlib
import functools
import json
import os
import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import tensorflow as tf

from bert_keras.errors import InputError

_EXAMPLE = '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'


def workers() -> list[str]:
    """Returns the addresses (HOST:PORT) of all workers; an empty list without TF_CONFIG.

    Raises:
        InputError: `fit` cannot train with this TF_CONFIG.
    """
    cluster = _tf_config().get("cluster", {})
    return [*cluster.get("chief", []), *cluster.get("worker", [])]


def check_one_machine() -> None:
    """Raises InputError if TF_CONFIG names several workers, of which only the first has scores."""
    if len(workers()) > 1:
        raise InputError("a study of several runs trains on one machine; unset TF_CONFIG")


def is_chief() -> bool:
    """Returns whether this process writes the results of a run.

    This is the case for a single process and for the first worker of the current strategy.
    """
    return tf.distribute.get_strategy().extended.should_checkpoint


def _tf_config() -> dict:
    """Returns the contents of TF_CONFIG; an empty dict if it is not set.

    Raises:
        InputError: `fit` cannot train with this TF_CONFIG.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return {}
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        worker = cluster[task["type"]][task["index"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"TF_CONFIG is {text!r}; expected {_EXAMPLE}") from error
    if "ps" in cluster or task["type"] not in ("chief", "worker"):
        raise InputError(
            f"TF_CONFIG makes this process the {task['type']} {worker} of a cluster with a "
            "parameter server or evaluator, which `fit` cannot use; list only workers and train "
            "with --strategy multiworker"
        )
    return config


# The worker in "remote target /job:worker/replica:0/task:0" and in a list of lost heartbeats.
_LOST_WORKER = re.compile(
    r"(?:remote target |heartbeats\):\n)/job:(\w+)/(?:replica:\d+/)?task:(\d+)"
)


@contextlib.contextmanager
def interrupted_by_lost_worker() -> Iterator[None]:
    """Turns TensorFlow's error about a worker that has ended into a KeyboardInterrupt.

    Its message names the worker if TensorFlow names it. Without several workers, all errors are
    raised unchanged.
    """
    try:
        yield
    except (
        *(tf.errors.UnavailableError, tf.errors.AbortedError),
        *(tf.errors.CancelledError, tf.errors.DeadlineExceededError),
    ) as error:
        if len(workers()) < 2:
            raise
        lost = _LOST_WORKER.search(str(error))
        raise KeyboardInterrupt(
            f"the connection to {f'{lost[1]} {lost[2]}' if lost else 'another worker'} was lost; "
            "start all workers again with the same command, which continues from the newest saved "
            "state"
        ) from None


STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")


def named_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """Returns a TensorFlow distribution strategy. Call it before TensorFlow computes anything.

    Args:
        name: `one`: one device. `mirrored`: all GPUs of this machine, or all its logical CPUs.
            `multiworker`: all workers that TF_CONFIG names, each with all of its GPUs. `tpu`: the
            TPU of TPU_NAME, or of this virtual machine. `auto`: `multiworker` if TF_CONFIG names
            several workers, `mirrored` if there are several GPUs, otherwise `one`.

    Raises:
        InputError: The name is unknown, or `fit` cannot train with this TF_CONFIG.
    """
    if name not in STRATEGIES:
        raise InputError(
            f"no strategy is called {name!r}; known: {', '.join(STRATEGIES)}. `fit` cannot use a "
            "parameter server: use multiworker instead"
        )
    gpus = tf.config.list_physical_devices("GPU")
    if name == "auto":
        name = "multiworker" if len(workers()) > 1 else "mirrored" if len(gpus) > 1 else "one"
    if name == "multiworker":
        if not workers():
            raise InputError(
                "multiworker needs TF_CONFIG, which is not set; set it on every worker, with the "
                f"index of the worker, as in {_EXAMPLE}"
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
        return _mirrored(*(device.name for device in devices))
    if name == "tpu":
        return _tpu()
    return tf.distribute.get_strategy()


@functools.cache  # the sums of a second strategy of the same devices would collide with its own
def _mirrored(*devices: str) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(devices)


def _tpu() -> tf.distribute.Strategy:
    name = os.environ.get("TPU_NAME", "local")
    try:
        if name.startswith("grpc://"):  # TensorFlow would wait forever for an unreachable address
            address = urlsplit(name)
            socket.create_connection((address.hostname, address.port), timeout=10).close()
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, OSError, tf.errors.OpError) as error:
        raise InputError(
            f"no TPU can be reached ({str(error).splitlines()[0]}); on a TPU virtual machine "
            "leave TPU_NAME unset; elsewhere set it to the name or grpc:// address of the TPU"
        ) from error
    return tf.distribute.TPUStrategy(resolver)
