"""The same global batch gives the same update, however many devices and parts it is taken in."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.devices.training import trained

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def alone():
    return trained(tf.distribute.get_strategy())


def assert_same(found, expected):
    weights, told = found
    assert weights.keys() == expected[0].keys()
    for path, weight in expected[0].items():
        np.testing.assert_allclose(weights[path], weight, atol=1e-6, rtol=0, err_msg=path)
    assert told == pytest.approx(expected[1], rel=1e-5)


def mirrored(devices: int):
    return tf.distribute.MirroredStrategy(
        [f"CPU:{index}" for index in range(devices)],
        # Collective operations of one process know one group of devices only.
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


@pytest.mark.parametrize(("devices", "parts"), [(1, 4), (1, 3), (2, 1), (4, 1), (2, 2)])
def test_devices_and_parts_change_nothing(alone, devices, parts):
    strategy = tf.distribute.get_strategy() if devices == 1 else mirrored(devices)
    assert_same(trained(strategy, parts=parts), alone)


@pytest.mark.parametrize("parts", [1, 2])
def test_xla_compiles_the_whole_step(alone, parts):
    """XLA:TPU takes what XLA takes here: static shapes, operations that it knows."""
    assert_same(trained(tf.distribute.get_strategy(), parts=parts, jit_compile=True), alone)


@pytest.mark.parametrize(("devices", "parts"), [(1, 1), (2, 2)])
def test_recomputed_activations_change_nothing(alone, devices, parts):
    strategy = tf.distribute.get_strategy() if devices == 1 else mirrored(devices)
    assert_same(trained(strategy, parts=parts, recomputes=True), alone)


@pytest.mark.parametrize(("parts", "num_cpus"), [(1, 1), (2, 1)])
def test_two_workers_change_nothing(alone, tmp_path, parts, num_cpus):
    with socket.socket() as first, socket.socket() as second:
        sockets = (first, second)
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        places = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    workers = []
    for index in range(2):
        task = {"cluster": {"worker": places}, "task": {"type": "worker", "index": index}}
        output = tmp_path / f"{index}.npz"
        workers.append(
            subprocess.Popen(
                [sys.executable, HERE / "training.py", output, "auto", str(parts), str(num_cpus)],
                env={**os.environ, "TF_CONFIG": json.dumps(task)},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for index, worker in enumerate(workers):
        _, notes = worker.communicate(timeout=200)
        assert worker.returncode == 0, notes
        arrays = dict(np.load(tmp_path / f"{index}.npz"))
        told = {name[5:]: float(arrays.pop(name)) for name in [*arrays] if name.startswith("told ")}
        assert_same((arrays, told), alone)
