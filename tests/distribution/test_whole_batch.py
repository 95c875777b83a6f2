"""Losses that compare rows see the rows of all replicas and of all parts of a batch."""

import functools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.distribution.parts import outputs_of_parts, part_of
from bert_keras.models import BertSentenceEncoder
from bert_keras.training.matryoshka import MatryoshkaLoss
from bert_keras.training.sentence_losses import (
    CoSENTLoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)
from tests.distribution.test_step import mirrored

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_layers=1,
    num_heads=2,
    intermediate_size=32,
    max_positions=16,
    hidden_dropout_rate=0.0,
    attention_dropout_rate=0.0,
    initializer_stddev=0.2,
)
LOSSES = {
    "ranking": MultipleNegativesRankingLoss(),
    "both": MultipleNegativesRankingLoss(directions="both", similarity="dot", scale=5.0),
    "cosent": CoSENTLoss(),
    "matryoshka": MatryoshkaLoss(MultipleNegativesRankingLoss(), dimensions=[16, 4]),
    "triplet": TripletLoss(),  # needs one row only
}
NUM_ROWS = 21  # in batches of 8; of the last 5 rows, the last of 4 replicas has none


def rows(name, *, num_rows=NUM_ROWS, length=6):
    random = np.random.default_rng(0)
    num_texts = 2 if name == "cosent" else 3
    ids = random.integers(1, 50, (num_rows, num_texts, length), dtype="int32")
    mask = (np.arange(length) < random.integers(2, length + 1, ids.shape[:2])[..., None]) * 1
    x = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * mask}
    return {key: array.astype("int32") for key, array in x.items()}, random.random(num_rows)


def model_of(*, loss, parts=1, rate=0.0, learning_rate=0.05, **compiling):
    keras.utils.set_random_seed(1)
    model = BertSentenceEncoder(
        BertConfig.from_dict(CONFIG.to_dict() | {"hidden_dropout_rate": rate})
    )
    optimizer = keras.optimizers.SGD(learning_rate)
    model.compile(optimizer, loss=loss, gradient_accumulation_steps=parts, **compiling)
    return model


def weights_of(model):
    return {weight.path: np.array(weight) for weight in model.trainable_variables}


def trained(strategy, name, **options):
    """Returns the weights after two epochs, and the logs of `fit` and `evaluate`."""
    with strategy.scope():
        model = model_of(loss=LOSSES[name], **options)
    x, y = rows(name)
    logs = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    return weights_of(model), [*logs, model.evaluate(x, y, batch_size=8, verbose=0)]


@functools.cache
def alone(name):
    return trained(tf.distribute.get_strategy(), name)


def assert_same(weights, expected):
    for path, weight in expected.items():
        np.testing.assert_allclose(weights[path], weight, atol=1e-6, rtol=0, err_msg=path)


@pytest.mark.parametrize(
    ("name", "devices", "parts"),
    [
        ("ranking", 2, 2),
        ("matryoshka", 1, 3),
        pytest.param("ranking", 4, 1, marks=pytest.mark.slow),
        pytest.param("cosent", 2, 3, marks=pytest.mark.slow),
        pytest.param("both", 4, 2, marks=pytest.mark.slow),
        pytest.param("cosent", 4, 1, marks=pytest.mark.slow),
        pytest.param("matryoshka", 2, 1, marks=pytest.mark.slow),
        pytest.param("ranking", 2, 8, marks=pytest.mark.slow),  # most parts have no row
        pytest.param("triplet", 4, 3, marks=pytest.mark.slow),
    ],
)
def test_devices_and_parts_change_nothing(name, devices, parts):
    strategy = tf.distribute.get_strategy() if devices == 1 else mirrored(devices)
    (weights, logs), (expected, expected_logs) = trained(strategy, name, parts=parts), alone(name)
    assert_same(weights, expected)
    assert logs == pytest.approx(expected_logs, rel=1e-6, abs=1e-6)


def test_the_loss_is_that_of_the_whole_batch():
    x, y = rows("ranking", num_rows=8)
    model = model_of(loss=LOSSES["ranking"], parts=4, learning_rate=0.0)
    expected = float(LOSSES["ranking"](y, model(x)))
    logs = model.train_on_batch(x, y)
    assert float(logs) == pytest.approx(expected, rel=1e-6)


def gradients_of_outputs(model, x, y, parts):
    """The gradients through the outputs of all parts, which are computed in one tape."""
    with tf.GradientTape() as tape:
        outputs = []
        for part in range(parts):
            with keras.StatelessScope(model._seeds(part)):
                outputs.append(model(part_of(x, part, parts), training=True))
        loss = model.loss(y, tf.concat(outputs, 0))
    return float(loss), tape.gradient(loss, model.trainable_variables)


@pytest.mark.parametrize("num_rows", [8, 7])
def test_each_part_has_the_same_dropout_when_it_is_computed_again(num_rows):
    parts = 3
    x, y = rows("ranking", num_rows=num_rows)
    model = model_of(loss=LOSSES["ranking"], parts=parts, rate=0.3, learning_rate=0.1)
    loss, gradients = gradients_of_outputs(model, x, y, parts)
    before = weights_of(model)
    assert float(model.train_on_batch(x, y)) == pytest.approx(loss, rel=1e-6)
    expected = {
        path: before[path] - 0.1 * tf.convert_to_tensor(gradient)
        for path, gradient in zip(before, gradients, strict=True)
        if gradient is not None
    }
    assert len(expected) > 10
    assert_same(weights_of(model), expected)


@pytest.mark.slow
def test_xla_compiles_the_parts(monkeypatch):
    from tensorflow.python.framework import config

    monkeypatch.setattr(config, "is_op_determinism_enabled", lambda: False)
    x, y = rows("ranking", num_rows=8)
    models = [
        model_of(loss=LOSSES["ranking"], parts=parts, jit_compile=jit_compile)
        for parts, jit_compile in ((1, False), (4, True))
    ]
    for model in models:
        model.train_on_batch(x, y)
    assert_same(*map(weights_of, models))


def test_targets_may_be_absent_if_the_loss_reads_none():
    x, _ = rows("ranking", num_rows=8)
    model = model_of(loss=LOSSES["ranking"])
    assert model.fit(x, batch_size=8, verbose=0).history["loss"][0] > 0


def test_outputs_of_parts_have_the_order_of_rows():
    x = tf.reshape(tf.range(14), (7, 2))
    outputs = outputs_of_parts(lambda part: {"y": part_of(x, part, 3) * 2}, 3, 7)
    np.testing.assert_array_equal(outputs["y"], x * 2)


MEMORY = """
import sys

import numpy as np


import tensorflow as tf
from bert_keras import BertConfig, BertSentenceEncoder, MultipleNegativesRankingLoss

num_rows, parts = map(int, sys.argv[1:])
sizes = {"hidden_size": 64, "num_heads": 4, "intermediate_size": 256, "num_layers": 2}
model = BertSentenceEncoder(BertConfig(vocab_size=50, max_positions=128, **sizes))
model.compile("sgd", MultipleNegativesRankingLoss(), gradient_accumulation_steps=parts)
x = dict.fromkeys(("input_ids", "input_mask"), np.ones((num_rows, 2, 128), "int32"))
model.train_on_batch({**x, "segment_ids": 0 * x["input_ids"]})
print(tf.config.experimental.get_memory_info("CPU:0")["peak"] / 2**20)
"""


@pytest.mark.slow
def test_memory_depends_on_the_size_of_a_part_and_not_on_their_number():
    def peak(num_rows, parts):
        """Mebibytes of tensors; the memory of the process also has gaps between them."""
        command = [sys.executable, "-c", MEMORY, str(num_rows), str(parts)]
        counted = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "8000"}
        done = subprocess.run(command, check=True, capture_output=True, env=os.environ | counted)
        return float(done.stdout.split()[-1])

    eight, sixteen, whole = peak(64, 8), peak(128, 16), peak(128, 1)
    assert sixteen < 1.2 * eight
    assert sixteen < 0.5 * whole
