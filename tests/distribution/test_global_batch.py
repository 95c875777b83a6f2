"""The update of a global batch does not depend on the number of devices and parts."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.models.task_models import BertClassifier
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import OPTIMIZERS, BertAdamW
from tests.distribution import training
from tests.distribution.training import (
    CONFIG,
    LOSSES,
    MODERN,
    rows,
    run_workers,
    trained,
    weights_of,
)
from tests.models.test_as_in_keras import Extended

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
ONE = tf.distribute.get_strategy()


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@functools.cache
def alone(optimizer="adamw"):
    return trained(ONE, optimizer=OPTIMIZERS[optimizer](2e-4), run_eagerly=True)


def assert_same(result, expected):
    (weights, logs), (expected_weights, expected_logs) = result, expected
    assert_same_weights(weights, expected_weights)
    assert logs == pytest.approx(expected_logs, rel=1e-5)


def assert_same_weights(weights, expected):
    assert weights.keys() == expected.keys()
    for path, weight in expected.items():
        np.testing.assert_allclose(weights[path], weight, atol=1e-6, rtol=0, err_msg=path)


def mirrored(devices: int):
    return tf.distribute.MirroredStrategy(
        [f"CPU:{index}" for index in range(devices)],
        # Collective operations of one process know one group of devices only.
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


PARTS = [slow(4, 1, False, "adamw"), (2, 2, False, "adamw"), slow(2, 2, False, "muon")]
PARTS += [slow(2, 2, True, "adamw")]


@pytest.mark.parametrize(("devices", "parts", "recomputes", "optimizer"), PARTS)
def test_devices_parts_and_recomputation_change_nothing(devices, parts, recomputes, optimizer):
    strategy = mirrored(devices)
    with strategy.scope():
        options = {"recomputes": recomputes, "optimizer": OPTIMIZERS[optimizer](2e-4)}
    assert_same(trained(strategy, parts=parts, **options), alone(optimizer))


@pytest.mark.slow
def test_devices_and_parts_change_nothing_of_a_modern_encoder():
    expected = trained(ONE, changes=MODERN)
    assert_same(trained(mirrored(2), changes=MODERN, parts=2, recomputes=True), expected)


@pytest.mark.slow
def test_xla_compiles_the_whole_step(monkeypatch, recwarn):
    # Otherwise Keras warns and does not use XLA.
    monkeypatch.setattr(config, "is_op_determinism_enabled", lambda: False)
    assert_same(trained(ONE, parts=2, jit_compile=True), alone())
    assert_same(trained(ONE, changes=MODERN, jit_compile=True), trained(ONE, changes=MODERN))
    assert not [each for each in recwarn if "jit_compile" in str(each.message)]


@pytest.mark.slow
def test_two_workers_that_are_started_again_change_nothing(tmp_path):
    for num_steps in ("6", "10"):
        script = [training.__file__, tmp_path / "{index}.npz", tmp_path / "run", num_steps]
        for code, notes in run_workers(training.two_workers(), *script):
            assert code == 0, notes
    for index in range(2):
        assert_same_weights(dict(np.load(tmp_path / f"{index}.npz")), alone()[0])


@pytest.mark.slow
def test_a_run_on_two_devices_continues_with_the_same_dropout(tmp_path):
    def weights(name, *, num_steps, start=0):
        options = {"changes": {"hidden_dropout_rate": 0.2}, "num_steps": num_steps}
        first_step, weights = training.continued(mirrored(2), tmp_path / name, **options)
        assert first_step == start
        return weights

    whole = weights("whole", num_steps=10)
    weights("parts", num_steps=6)
    assert_same_weights(weights("parts", num_steps=10, start=6), whole)


INPUTS = ("input_ids", "input_mask", "segment_ids")


def test_the_step_is_traced_once_and_the_end_of_the_data_is_no_step():
    """Keras runs a step too many if it does not know the number of batches."""
    traces = []

    class Traced(BertClassifier):
        def train_step(self, data):
            traces.append(1)
            return super().train_step(data)

    model = Traced(BertConfig(**CONFIG), num_labels=2)
    model.compile(BertAdamW(1e-3), loss=LOSS, metrics=["accuracy"])
    x = dict.fromkeys(INPUTS, np.ones((8, 4), "int32"))
    data = tf.data.Dataset.from_tensor_slices((x, np.ones(8, "int32"))).batch(4)
    assert model.fit(data, epochs=8, verbose=0).history["accuracy"][-1] == 1
    assert len(traces) == 1
    model.fit(data.filter(lambda *_: True), epochs=2, verbose=0)
    assert model.optimizer.iterations == 20


@pytest.mark.parametrize("optimizer", ["adamw", slow("muon")])
def test_sums_of_the_step_do_not_depend_on_the_order_of_readers(optimizer):
    """AddN starts with the first input whose buffer no other operation reads.

    If this is one of the first two inputs, the sum does not depend on the timing.
    """
    model = BertPretrainer(BertConfig(**CONFIG))
    rule, metrics = OPTIMIZERS[optimizer](1e-3), pretraining_metrics()
    model.compile(rule, pretraining_losses(), weighted_metrics=metrics, run_eagerly=True)
    model.train_on_batch(*next(training.batches()))
    batch = tf.nest.map_structure(tf.constant, next(training.batches()))
    step = tf.function(model.train_step, autograph=False).get_concrete_function(batch)
    sums = [op for op in step.graph.get_operations() if op.type == "AddN" and len(op.inputs) > 2]
    assert sums  # such as the gradients of queries, keys and values for their input
    for op in sums:
        assert any(each.consumers() == [op] for each in op.inputs[:2]), op.name


@pytest.mark.slow
def test_gradients_of_hundreds_of_megabytes_are_added_up_in_parts():
    model = BertPretrainer(BertConfig(num_layers=2))
    model.encoder.gradient_checkpointing = True
    model.compile(BertAdamW(1e-4), pretraining_losses(), gradient_accumulation_steps=4)
    x, positions = dict.fromkeys(INPUTS, np.ones((4, 64), "int32")), np.ones((4, 10), "int32")
    y = {"masked_lm": positions, "next_sentence": np.ones(4, "int32")}
    data = tf.data.Dataset.from_tensors((x | {"masked_lm_positions": positions}, y)).repeat()
    model.fit(data, steps_per_epoch=1, epochs=3, verbose=0)
    assert model.optimizer.iterations == 3 and model.optimizer.skipped == 0


def test_parts_have_the_losses_and_the_state_of_layers_as_the_whole():
    """Regularizers, add_loss, BatchNormalization and a loss of Keras, in two equal parts."""

    class Unusual(Extended, BertClassifier):
        pass

    found = []
    for parts in (1, 2):
        keras.utils.set_random_seed(1)
        model = Unusual(BertConfig(**CONFIG), num_labels=2)
        options = {"gradient_accumulation_steps": parts, "run_eagerly": parts == 1}
        model.compile("sgd", LOSS, metrics=["accuracy"], **options)
        ids = np.tile(np.arange(1, 9).reshape(2, 4), (2, 1))  # both parts are the same
        x = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
        logs = model.fit(x, np.array([0, 1, 0, 1]), epochs=2, verbose=0, shuffle=False).history
        found.append(([each.numpy() for each in model.trainable_variables], logs))
        assert np.abs(model.average.moving_mean.numpy()).max() > 0
    for whole, in_parts in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(in_parts, whole, atol=1e-6)
    for name, values in found[0][1].items():
        assert found[1][1][name] == pytest.approx(values, rel=1e-5)


def model_of(*, loss, parts=1, **compiling):
    keras.utils.set_random_seed(1)
    model, sgd = BertSentenceEncoder(BertConfig(**CONFIG)), keras.optimizers.SGD(0.05)
    model.compile(sgd, loss=loss, gradient_accumulation_steps=parts, **compiling)
    return model


def trained_on_rows(strategy, name):
    """Returns the weights after two epochs, and the logs of `fit` and `evaluate`."""
    with strategy.scope():
        model = model_of(loss=LOSSES[name], run_eagerly=strategy is ONE)
    x, y = rows(name)
    logs = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    logs = [*logs, model.evaluate(x, y, batch_size=8, verbose=0)]
    return weights_of(model), dict(enumerate(logs))


@pytest.mark.parametrize("name", ["matryoshka", slow("ranking"), slow("cosent")])
def test_devices_change_nothing_of_losses_of_sentences(name):
    devices = 2 if name == "matryoshka" else 4
    assert_same(trained_on_rows(mirrored(devices), name), trained_on_rows(ONE, name))


def test_losses_that_compare_rows_have_no_parts():
    for loss, parts in ((LOSSES["matryoshka"], 2), ("mse", 0)):
        with pytest.raises(InputError):
            model_of(loss=loss, parts=parts)
