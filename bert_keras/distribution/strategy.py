"""Selects the devices and the precision of a run."""

import contextlib
import functools
import json
import os
from contextlib import AbstractContextManager
from pathlib import Path

import keras
import numpy as np

from bert_keras.distribution import PRECISIONS, STRATEGIES
from bert_keras.errors import InputError, check_name

# The smallest hidden size for which "auto" selects bfloat16 on a processor: see
# docs/benchmarks/archive/pretraining.md, "bfloat16".
PROCESSOR_SIZE = 256
PROCESSORS = Path("/proc/cpuinfo")  # exists on Linux
HEARTBEAT_TIMEOUT = 30  # seconds until JAX ends the other processes of one that has died


def workers() -> list[str]:
    """Returns the addresses (HOST:PORT) of all workers, or an empty list without TF_CONFIG."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return [*cluster.get("chief", []), *cluster.get("worker", [])]


def check_one_machine() -> None:
    """Raises InputError if TF_CONFIG names several workers, or if JAX has several processes."""
    if len(workers()) > 1 or num_processes() > 1:
        variables = "TF_CONFIG, or for JAX set --strategy one"
        raise InputError(f"this command trains on one machine only; unset {variables}")


def num_processes() -> int:
    """Returns the number of connected processes of JAX."""
    if keras.config.backend() != "jax":
        return 1
    import jax

    return jax.process_count() if jax.distributed.is_initialized() else 1


def is_chief() -> bool:
    """Returns whether this process writes results: a single process, or the first worker."""
    if num_processes() > 1:
        import jax

        return jax.process_index() == 0
    if keras.config.backend() != "tensorflow":
        return True
    import tensorflow as tf

    return tf.distribute.get_strategy().extended.should_checkpoint


def wait_for_workers(*, step: int = 0) -> set[int]:
    """Waits until all workers have called this function, such as to read the first one's files.

    Returns the steps of all processes of JAX, or the own step.
    """
    if num_processes() > 1:
        from jax.experimental import multihost_utils

        return {*multihost_utils.process_allgather(np.array(step)).tolist()}
    if len(workers()) > 1 and keras.config.backend() == "tensorflow":
        import tensorflow as tf

        total = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("sum", 1.0))
        tf.distribute.get_strategy().run(total)
    return {step}


def received_sigterm(step: int) -> bool:
    """Returns whether a process of JAX received SIGTERM; all processes learn it at one step."""
    if num_processes() == 1:
        return False
    from jax.experimental import multihost_utils

    return multihost_utils.reached_preemption_sync_point(step)


def own_rows(num_rows: int) -> np.ndarray:
    """Returns whether each row of a batch is one of this process with JAX, bool [num_rows]."""
    import jax

    devices = keras.distribution.distribution().device_mesh.backend_mesh.devices
    is_own = [each.process_index == jax.process_index() for each in devices]
    return np.repeat(is_own, num_rows // len(is_own))


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
    devices. `tpu`: all TPUs, with JAX. `multiworker`: all devices of all workers, which TF_CONFIG
    names for TensorFlow, and for JAX JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID,
    or a launcher that JAX knows. `auto`: `multiworker` if these variables name several workers,
    `mirrored` if there are several GPUs or, with JAX, several devices, otherwise `one`. Call it
    before the backend computes anything.
    """
    check_name(name, STRATEGIES, what="strategy")
    backend, num_workers = keras.config.backend(), len(workers())
    is_tensorflow = backend == "tensorflow"
    if is_tensorflow and name == "multiworker" and not num_workers:
        raise InputError(
            "multiworker needs, per worker, TF_CONFIG="
            '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'
        )
    is_named = num_workers > 1 or "JAX_COORDINATOR_ADDRESS" in os.environ
    if not is_tensorflow and (name == "multiworker" or (name == "auto" and is_named)):
        _connect_processes()
    devices = [] if is_tensorflow else keras.distribution.list_devices()
    if name == "tpu" and not any(device.startswith("tpu") for device in devices):
        raise InputError(f"{backend} finds no TPU; set KERAS_BACKEND=jax and install jax[tpu]")
    if is_tensorflow:
        return named_strategy(name).scope()
    if name == "one" or len(devices) == 1:
        return contextlib.nullcontext()
    # Each process reads all batches and passes its own rows to Keras; see `own_rows`.
    return keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False).scope()


def _connect_processes() -> None:
    """Connects this process of JAX with the other ones."""
    import jax

    if jax.distributed.is_initialized():
        return
    try:
        numbers = (os.environ.get(name) for name in ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))
        numbers = [int(number) if number else None for number in numbers]
        jax.distributed.initialize(None, *numbers, heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT)
    except ValueError as error:
        raise InputError(
            f"{error}; set JAX_COORDINATOR_ADDRESS=HOST:PORT of the first machine, "
            "JAX_NUM_PROCESSES and JAX_PROCESS_ID, or start the command with SLURM or on a TPU pod"
        ) from error


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


def named_policy(name: str = "auto", *, hidden_size: int = 0) -> str:
    """Returns the name of a dtype policy for `keras.config.set_dtype_policy`.

    All policies keep the weights in float32; matrix products use the precision. "auto" selects
    bfloat16 on GPUs with compute capability 8.0 (A100) or higher, on TPUs, and with TensorFlow on
    processors with AVX512-BF16 or AMX for models of a `hidden_size` of at least `PROCESSOR_SIZE`;
    otherwise float32.
    """
    check_name(name, PRECISIONS, what="precision")
    if name != "auto":
        return name if name == "float32" else f"mixed_{name}"
    if keras.config.backend() == "jax":
        import jax

        pairs = [(each.platform, getattr(each, "compute_capability", 0)) for each in jax.devices()]
        is_faster = all(name == "tpu" or float(capability) >= 8 for name, capability in pairs)
    else:
        import tensorflow as tf

        flags = PROCESSORS.read_text().split() if PROCESSORS.exists() else []
        has_bfloat16 = not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)
        is_faster = has_bfloat16 and hidden_size >= PROCESSOR_SIZE
        if gpus := tf.config.list_physical_devices("GPU"):
            details = map(tf.config.experimental.get_device_details, gpus)
            is_faster = all(each.get("compute_capability", (0, 0)) >= (8, 0) for each in details)
    return "mixed_bfloat16" if is_faster else "float32"
