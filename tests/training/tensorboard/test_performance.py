"""The number of operations, the utilisation and the profile of steps."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.training import callbacks
from bert_keras.training.callbacks import FitSettings, TensorBoardLog
from bert_keras.training.curves import read_curves
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.tensorboard.performance import (
    Profile,
    flops_per_example,
    peak_flops_per_second,
    steps_to_profile,
)

CONFIG = BertConfig(
    vocab_size=50, hidden_size=8, num_layers=2, num_heads=2, intermediate_size=24, max_positions=16
)


def test_operations_equal_a_manual_count():
    """T = 10, D = 8, F = 24, V = 50, P = 3."""
    layer = 2 * 10 * 8 * 8 * 4  # query, key, value, output
    layer += 2 * 10 * 8 * 24 * 2  # both layers
    layer += 2 * 10 * 10 * 8 * 2  # scores and context, of both heads together
    pooler_and_next_sentence = 2 * 8 * 8 + 2 * 8 * 2
    masked_lm = 2 * 3 * 8 * 8 + 2 * 3 * 8 * 50
    forward = 2 * layer + pooler_and_next_sentence + masked_lm
    assert flops_per_example(CONFIG, 10, 3) == 3 * forward


def test_bert_base_needs_6_operations_per_weight_and_token_and_the_attention():
    config = BertConfig()
    blocks = 12 * 12 * 768**2
    flops = flops_per_example(config, 128, 0)
    assert flops == pytest.approx(6 * blocks * 128 + 12 * 12 * 768 * 128**2, rel=1e-4)


@pytest.mark.parametrize("Model", [BertPretrainer, BertMaskedLM])
@pytest.mark.parametrize("changes", [{}, {"embedding_size": 6, "shares_layers": True}], ids=str)
def test_operations_equal_the_matrix_products_of_the_gradient_graph(Model, changes):
    has_pooler = Model is BertPretrainer
    config = dataclasses.replace(CONFIG, has_pooler=has_pooler, **changes)
    model, rows = Model(config), 4
    x = {name: tf.ones((rows, 10), "int32") for name in ("input_ids", "input_mask", "segment_ids")}
    x["masked_lm_positions"] = tf.ones((rows, 3), "int32")

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.square(y)) for y in model(x).values()])
        return [g for g in tape.gradient(loss, model.trainable_variables) if g is not None]

    graph = gradients.get_concrete_function().graph
    assert sum(map(flops_of, graph.get_operations())) == rows * flops_per_example(config, 10, 3)


def flops_of(operation: tf.Operation) -> int:
    if operation.type not in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        return 0
    adjoint = "transpose_a" if operation.type == "MatMul" else "adj_x"
    inner = operation.inputs[0].shape[-2 if operation.get_attr(adjoint) else -1]
    return 2 * inner * operation.outputs[0].shape.num_elements()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_peak_of_this_machine_is_plausible(dtype):
    assert 1e8 < peak_flops_per_second(dtype) < 1e16


def test_utilisation_excludes_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "peak_flops_per_second", lambda dtype: 1e6)
    times = iter([100.0, 1.0, 1.25, 1.5])
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: next(times))
    model = BertPretrainer(CONFIG)
    model.compile(BertAdamW(1e-3))
    model.optimizer.build(model.trainable_variables)
    log = TensorBoardLog(
        FitSettings(
            stage="test",
            output=tmp_path,
            num_steps=4,
            steps_per_epoch=3,
            epochs_per_checkpoint=1,
            keep_checkpoints=1,
            batch_size=10,
            tokens_per_example=6,
            flops_per_example=10_000,
        )
    )
    log.set_model(model)
    log.set_params({"steps": 3})
    log.on_train_begin()
    for epoch, num_steps in enumerate((1, 3)):
        model.optimizer.iterations.assign(epoch)
        log.on_epoch_begin(epoch)
        for step in range(num_steps):
            log.on_train_batch_end(step)
        log.on_epoch_end(epoch)
    train = read_curves(tmp_path / "logs")["train"]
    assert dict(train["speed/model_flops_per_second"]) == pytest.approx({1: 4e5})
    assert dict(train["speed/model_flops_utilisation"]) == pytest.approx({1: 0.4})
    assert [step for step, _ in train["optimizer/learning_rate"]] == [0, 1]


@pytest.mark.parametrize("text", ["", "5", "0:3", "7:6", "a:b", "1:2:3", "-1:3", " 1:2"])
def test_invalid_steps_to_profile_are_refused(text):
    with pytest.raises(InputError, match=r"the steps to profile are .*; expected FIRST:LAST"):
        steps_to_profile(text)


@pytest.mark.parametrize(
    ("text", "start", "profiled"),
    [
        ("5:6", 0, [5, 6]),
        ("3:3", 0, [3]),
        ("7:90", 0, [7, 8]),
        ("9:9", 0, []),
        ("2:5", 3, []),
        ("5:5", 3, [5]),
    ],
)
def test_the_steps_from_first_to_last_are_profiled(monkeypatch, text, start, profiled):
    first, last = steps_to_profile(text)
    steps, running = [], []
    monkeypatch.setattr("tensorflow.profiler.experimental.start", running.append)
    monkeypatch.setattr("tensorflow.profiler.experimental.stop", running.pop)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.build((None, 1))
    model.optimizer.iterations.assign(start)
    profile = Profile("logs", first=first, last=last)

    class StepLog(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if running:
                steps.append(int(self.model.optimizer.iterations) + 1)

    x = np.ones((8 - start, 1))
    model.fit(x, x, batch_size=1, verbose=0, shuffle=False, callbacks=[profile, StepLog()])
    assert steps == profiled and not running


def test_a_profile_is_written(tmp_path):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 1))
    profile = Profile(tmp_path, first=2, last=3)
    model.fit(x, x, batch_size=1, verbose=0, shuffle=False, callbacks=[profile])
    assert [*tmp_path.glob("plugins/profile/*/*.xplane.pb")]
