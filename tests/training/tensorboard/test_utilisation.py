"""The share of the machine's peak."""

import pytest

from bert_keras.config import BertConfig
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.training.tensorboard import utilisation
from bert_keras.training.tensorboard.utilisation import (
    ModelFlopsUtilisation,
    peak_flops_per_second,
)

CONFIG = BertConfig(vocab_size=50, hidden_size=8, num_layers=2, num_heads=2, max_positions=16)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_peak_of_this_machine_is_a_possible_one(dtype):
    assert 1e8 < peak_flops_per_second(dtype) < 1e16


def test_the_utilisation_is_of_the_steps_after_the_first(monkeypatch):
    monkeypatch.setattr(utilisation, "peak_flops_per_second", lambda dtype: 1e6)
    times = iter([100.0, 1.0, 1.25, 1.5])
    monkeypatch.setattr("bert_keras.training.pace.time.perf_counter", lambda: next(times))
    model = BertPretrainer(CONFIG)
    callback = ModelFlopsUtilisation(flops_per_step=1e5)
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_train_batch_end(0)
    logs = {}
    callback.on_epoch_end(0, logs)
    assert logs == {}  # of one step there is no pace
    callback.on_epoch_begin(1)
    for step in range(3):
        callback.on_train_batch_end(step)
    callback.on_epoch_end(1, logs)
    assert logs["speed/model_flops_per_second"] == pytest.approx(4e5)
    assert logs["speed/model_flops_utilisation"] == pytest.approx(0.4)
