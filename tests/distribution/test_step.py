"""The update of a global batch does not depend on the number of devices and parts."""

import functools
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.models.task_models import BertClassifier, BertQuestionAnswering
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import OPTIMIZERS, BertAdamW
from tests.distribution.training import CONFIG, MODERN, trained
from tests.distribution.workers import two_workers

FOLDER = Path(__file__).parent


@functools.cache
def alone(optimizer="adamw"):
    return trained(tf.distribute.get_strategy(), optimizer=OPTIMIZERS[optimizer](2e-4))


def assert_same(result, expected):
    weights, logs = result
    assert weights.keys() == expected[0].keys()
    for path, weight in expected[0].items():
        np.testing.assert_allclose(weights[path], weight, atol=1e-6, rtol=0, err_msg=path)
    assert logs == pytest.approx(expected[1], rel=1e-5)


def mirrored(devices: int):
    return tf.distribute.MirroredStrategy(
        [f"CPU:{index}" for index in range(devices)],
        # Collective operations of one process know one group of devices only.
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


@pytest.mark.parametrize(
    ("devices", "parts", "recomputes", "optimizer"),
    [
        pytest.param(1, 3, False, "adamw", marks=pytest.mark.slow),
        pytest.param(4, 1, False, "adamw", marks=pytest.mark.slow),
        (2, 2, False, "adamw"),
        pytest.param(2, 2, False, "muon", marks=pytest.mark.slow),
        pytest.param(2, 2, True, "adamw", marks=pytest.mark.slow),
    ],
)
def test_devices_parts_and_recomputed_activations_change_nothing(
    devices, parts, recomputes, optimizer
):
    strategy = tf.distribute.get_strategy() if devices == 1 else mirrored(devices)
    with strategy.scope():
        rule = OPTIMIZERS[optimizer](2e-4)
    assert_same(
        trained(strategy, parts=parts, recomputes=recomputes, optimizer=rule), alone(optimizer)
    )


def test_devices_and_parts_change_nothing_of_a_modern_encoder():
    expected = trained(tf.distribute.get_strategy(), changes=MODERN)
    assert_same(trained(mirrored(2), changes=MODERN, parts=2, recomputes=True), expected)


@pytest.mark.slow
def test_xla_compiles_the_whole_step(monkeypatch, recwarn):
    """XLA:TPU has the same requirements: static shapes and supported operations."""
    # Otherwise Keras warns and does not use XLA.
    monkeypatch.setattr(config, "is_op_determinism_enabled", lambda: False)
    assert_same(trained(tf.distribute.get_strategy(), parts=2, jit_compile=True), alone())
    assert not [each for each in recwarn if "jit_compile" in str(each.message)]


@pytest.mark.parametrize(
    "metric",
    [
        "accuracy",
        pytest.param(
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"), marks=pytest.mark.slow
        ),
    ],
)
def test_the_step_is_traced_once(monkeypatch, metric):
    traces = []
    train_step = BertClassifier._train_step
    monkeypatch.setattr(
        BertClassifier, "_train_step", lambda *arguments: traces.append(1) or train_step(*arguments)
    )
    model = BertClassifier(BertConfig(**CONFIG), num_labels=2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(BertAdamW(1e-3), loss=loss, metrics=[metric])
    x = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.ones((8, 4), "int32"))
    data = tf.data.Dataset.from_tensor_slices((x, np.ones(8, "int32"))).batch(4)
    assert model.fit(data, epochs=8, verbose=0).history["accuracy"][-1] == 1
    assert len(traces) == 1


def test_no_dropout_draws_twice_with_the_same_seed(monkeypatch):
    seeds = []

    def recorded(generator, ordered=True, draw=keras.random.SeedGenerator.next):
        seed = draw(generator, ordered)
        seeds.append(tuple(seed.numpy()))
        return seed

    config = CONFIG | {"hidden_dropout_rate": 0.1, "num_layers": 2, "shares_layers": True}
    model = BertClassifier(BertConfig(**config), num_labels=2)
    model.compile(BertAdamW(1e-3), gradient_accumulation_steps=2)
    monkeypatch.setattr(keras.random.SeedGenerator, "next", recorded)
    inputs = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.ones((1, 4), "int32"))
    for step in range(3):
        model.optimizer.iterations.assign(step)
        for part in range(2):
            with keras.StatelessScope(model._seeds(part)):
                model(inputs, training=True)
    assert len(seeds) == len({*seeds}) == 3 * 2 * 6


@pytest.mark.slow
def test_gradients_of_hundreds_of_megabytes_are_added_up_in_parts():
    model = BertPretrainer(BertConfig(num_layers=2))
    model.encoder.recomputes = True
    model.compile(
        optimizer=BertAdamW(1e-4), loss=pretraining_losses(), gradient_accumulation_steps=4
    )
    ids, positions = np.ones((4, 64), "int32"), np.ones((4, 10), "int32")
    x = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    y = {"masked_lm": positions, "next_sentence": np.ones(4, "int32")}
    data = tf.data.Dataset.from_tensors((x | {"masked_lm_positions": positions}, y)).repeat()
    model.fit(data, steps_per_epoch=1, epochs=3, verbose=0)
    assert model.optimizer.iterations == 3 and model.optimizer.skipped == 0


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "num_cpus"), [(1, 1), (2, 1)])
def test_two_workers_change_nothing(tmp_path, parts, num_cpus):
    script, settings = FOLDER / "training.py", ("auto", str(parts), str(num_cpus))
    workers = [
        subprocess.Popen(
            [sys.executable, script, tmp_path / f"{index}.npz", *settings],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index, environment in enumerate(two_workers())
    ]
    for index, worker in enumerate(workers):
        _, notes = worker.communicate(timeout=200)
        assert worker.returncode == 0, notes
        arrays = dict(np.load(tmp_path / f"{index}.npz"))
        logs = {name[4:]: float(arrays.pop(name)) for name in [*arrays] if name.startswith("log ")}
        assert_same((arrays, logs), alone())


LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
SPAN = {"start": np.zeros(2, "int32"), "end": np.zeros(2, "int32")}


@pytest.mark.parametrize(
    ("loss", "loss_weights", "y", "message"),
    [
        ([LOSS, LOSS], None, SPAN, "loss is a list; expected a dict by output"),
        ({"start": LOSS}, [0.5], SPAN, "loss_weights is a list; expected a dict by output"),
        ({"start": LOSS}, {"strt": 0.5}, SPAN, "has strt, which loss has not; expected only start"),
        ({"ende": LOSS}, None, SPAN, "loss has the output ende; expected outputs of start, end"),
        (LOSS, None, SPAN["end"], "not a dict; expected one for each of start, end"),
        (LOSS, None, None, "the loss reads targets, and the data has none"),
        (None, None, SPAN, "compile received no loss; expected one for at least one output"),
    ],
)
def test_losses_that_do_not_fit_the_outputs_are_refused(loss, loss_weights, y, message):
    model = BertQuestionAnswering(BertConfig(**CONFIG))
    x = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.ones((2, 4), "int32"))
    with pytest.raises(InputError, match=message):
        model.compile(BertAdamW(1e-3), loss, loss_weights)
        model.fit(x, y, verbose=0)


def test_a_loss_weight_of_0_counts():
    model = BertQuestionAnswering(BertConfig(**CONFIG))
    model.compile(BertAdamW(1e-3), LOSS, 0.0)
    x = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.ones((2, 4), "int32"))
    assert model.evaluate(x, SPAN, verbose=0) == 0


@pytest.mark.parametrize("parts", [1, 2])
def test_losses_that_the_step_would_leave_out_are_refused(parts):
    class Regularized(BertClassifier):
        def call(self, inputs, training=False):
            logits = super().call(inputs, training=training)
            self.add_loss(keras.ops.sum(logits**2))
            return logits

    model = Regularized(BertConfig(**CONFIG), num_labels=2)
    model.compile(BertAdamW(1e-3), LOSS, gradient_accumulation_steps=parts)
    x = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.ones((2, 4), "int32"))
    with pytest.raises(InputError, match="the model has losses of add_loss or of regularizers"):
        model.fit(x, np.zeros(2), verbose=0)
