"""The strategy that a name and TF_CONFIG select, and the precision."""

import json

import pytest
import tensorflow as tf

from bert_keras.distribution import strategy as strategies
from bert_keras.distribution.strategy import is_chief, named_policy, named_strategy, workers


def test_one_device_needs_no_strategy_and_each_worker_is_the_chief_of_its_own(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name in ("one", "auto"):  # there is no GPU, or one
        assert named_strategy(name).num_replicas_in_sync == 1
    assert workers() == [] and is_chief()
    cluster = {"chief": ["10.0.0.3:2222"], "worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}
    task = {"type": "worker", "index": 1}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert len(workers()) == 3
    with named_strategy("one").scope():
        assert is_chief()


def test_mirrored_uses_every_device_and_adds_up_tensors_of_any_size():
    def total(size):
        return tf.distribute.get_replica_context().all_reduce("sum", tf.ones([size]))

    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    for size in (2, 1):
        strategy = named_strategy("mirrored")
        assert strategy.num_replicas_in_sync == len(tf.config.list_logical_devices(kind))
        sums = strategy.experimental_local_results(strategy.run(tf.function(total), [size]))
        assert sums[0].numpy().tolist() == [strategy.num_replicas_in_sync] * size


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="the GPU decides")
def test_auto_selects_bfloat16_for_large_models_on_processors_that_have_it(monkeypatch, tmp_path):
    monkeypatch.setattr(strategies, "PROCESSORS", tmp_path / "cpuinfo")
    assert named_policy(hidden_size=768) == "float32"  # not Linux
    assert named_policy("float16") == "mixed_float16"
    for flags, size, policy in (
        ("avx512_bf16 amd_lbr_v2", 256, "mixed_bfloat16"),
        ("amx_bf16 amx_tile", 768, "mixed_bfloat16"),
        ("avx512_bf16", 128, "float32"),
        ("avx512f", 768, "float32"),
    ):
        (tmp_path / "cpuinfo").write_text(f"flags : fpu {flags}\n")
        assert named_policy(hidden_size=size) == policy, flags
