"""The strategy that a name and TF_CONFIG select, and settings that are refused."""

import json

import pytest
import tensorflow as tf

from bert_keras.distribution import numerics
from bert_keras.distribution.numerics import named_policy
from bert_keras.distribution.strategy import (
    interrupted_by_lost_worker,
    is_chief,
    named_strategy,
    workers,
)
from bert_keras.errors import InputError

TWO = {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}


def tf_config(monkeypatch, cluster, kind="worker", index=0):
    text = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
    monkeypatch.setenv("TF_CONFIG", text)


def test_one_device_needs_no_strategy(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name in ("one", "auto"):  # there is no GPU, or one
        assert named_strategy(name).num_replicas_in_sync == 1
    assert workers() == [] and is_chief()


def test_mirrored_uses_every_device():
    strategy = named_strategy("mirrored")
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    assert strategy.num_replicas_in_sync == len(tf.config.list_logical_devices(kind))


def test_mirrored_adds_up_tensors_of_another_size_than_an_earlier_strategy():
    def total(size):
        return tf.distribute.get_replica_context().all_reduce("sum", tf.ones([size]))

    for size in (2, 1):
        strategy = named_strategy("mirrored")
        sums = strategy.run(tf.function(total), [size])
        first = strategy.experimental_local_results(sums)[0]
        assert first.numpy().tolist() == [strategy.num_replicas_in_sync] * size


def test_each_worker_is_the_chief_of_its_own_strategy(monkeypatch):
    tf_config(monkeypatch, {"chief": ["10.0.0.3:2222"], **TWO}, index=1)
    assert len(workers()) == 3
    with named_strategy("one").scope():
        assert is_chief()


def test_parameter_servers_and_missing_workers_are_refused(monkeypatch):
    with pytest.raises(InputError, match=r"no strategy is called 'ps'; .* use multiworker instead"):
        named_strategy("ps")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="multiworker needs TF_CONFIG, which is not set"):
        named_strategy("multiworker")
    tf_config(monkeypatch, {**TWO, "ps": ["10.0.0.4:2222"]})
    with pytest.raises(InputError, match="a parameter server or evaluator, which `fit` cannot"):
        named_strategy()


NO_WORKERS = '{"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}}'


@pytest.mark.parametrize("text", ["{", "[]", '{"cluster": {}}', NO_WORKERS])
def test_a_tf_config_without_this_worker_is_quoted(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match=r"TF_CONFIG is .*; expected"):
        named_strategy()


@pytest.mark.parametrize("name", ["local", "grpc://127.0.0.1:1", "grpc://nowhere"])
def test_an_unreachable_tpu_is_reported(monkeypatch, name):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("TPU_NAME", name)
    with pytest.raises(InputError, match="no TPU can be reached"):
        named_strategy("tpu")


def test_the_name_of_a_precision_selects_the_policy():
    assert named_policy("float32") == "float32"
    assert named_policy("float16") == "mixed_float16"
    if not tf.config.list_physical_devices("GPU"):
        assert named_policy() == "float32"
    with pytest.raises(InputError, match="no precision is called 'int8'"):
        named_policy("int8")


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="the GPU decides")
@pytest.mark.parametrize(
    ("flags", "hidden_size", "policy"),
    [
        ("flags : fpu avx512_bf16 amd_lbr_v2", 256, "mixed_bfloat16"),
        ("flags : fpu amx_bf16 amx_tile", 768, "mixed_bfloat16"),
        ("flags : fpu avx512_bf16", 128, "float32"),
        ("flags : fpu avx512f", 768, "float32"),
    ],
)
def test_auto_selects_bfloat16_for_large_models_on_processors_that_have_it(
    monkeypatch, tmp_path, flags, hidden_size, policy
):
    monkeypatch.setattr(numerics, "PROCESSORS", tmp_path / "cpuinfo")
    assert named_policy(hidden_size=lambda: hidden_size) == "float32"  # not Linux
    (tmp_path / "cpuinfo").write_text(f"{flags}\n")
    assert named_policy(hidden_size=lambda: hidden_size) == policy


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        (
            "the following tasks (stopped sending heartbeats):\n/job:worker/replica:0/task:1",
            "worker 1",
        ),
        ("from remote target /job:chief/replica:0/task:0 while calling", "chief 0"),
        ("Socket closed", "another worker"),
    ],
)
def test_a_lost_worker_interrupts_the_run(monkeypatch, message, lost):
    error = tf.errors.UnavailableError(None, None, message)
    with pytest.raises(tf.errors.UnavailableError), interrupted_by_lost_worker():
        raise error
    tf_config(monkeypatch, TWO)
    interruption = pytest.raises(KeyboardInterrupt, match=f"to {lost} was lost; start all workers")
    with interruption, interrupted_by_lost_worker():
        raise error
