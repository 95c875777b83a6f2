"""The dynamic loss scale of float16."""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.distribution.replicas import replica_id
from bert_keras.training.optimizer import BertAdamW
from tests.distribution.test_step import mirrored


def test_an_infinite_gradient_of_one_replica_skips_the_step_on_all_replicas():
    strategy = mirrored(2)
    with strategy.scope():
        weight = keras.Variable(np.ones(3, "float32"), name="kernel")
        optimizer = BertAdamW(0.1, dynamic_loss_scale=True)
        optimizer.build([weight])

    @tf.function
    def step(bad_value):
        def replica():
            scale = optimizer.scale_loss(tf.ones(()))
            bad = tf.where(replica_id() == 1, bad_value, 0.0)
            optimizer.apply([tf.ones(3) * scale + bad], [weight])

        strategy.run(replica)

    def copies(variable):
        return [
            copy.numpy().tolist() for copy in strategy.experimental_local_results(variable.value)
        ]

    step(0.0)
    moved = copies(weight)
    assert moved[0] == moved[1] and moved[0][0] < 1
    assert copies(optimizer.loss_scale) == [2.0**15] * 2
    for bad_value in (np.inf, np.nan, -np.inf):
        step(bad_value)
    assert copies(weight) == moved
    assert copies(optimizer.loss_scale) == [2.0**12] * 2
    assert copies(optimizer.iterations) == [4, 4]  # the position in the data
    assert copies(optimizer.skipped) == [0, 0]  # the scale was the cause
    step(0.0)
    moved_again = copies(weight)
    assert moved_again[0] == moved_again[1] and moved_again[0][0] < moved[0][0]


def test_the_scale_changes_no_update_and_is_doubled_after_finite_steps(monkeypatch):
    monkeypatch.setattr("bert_keras.training.base_optimizer._STEPS_TO_DOUBLE", 3)
    weights = [keras.Variable(np.ones(3, "float32"), name="kernel") for _ in range(2)]
    scaled, plain = BertAdamW(0.1, dynamic_loss_scale=True), BertAdamW(0.1)
    for optimizer, weight in zip((scaled, plain), weights, strict=True):
        optimizer.build([weight])
        for _ in range(4):
            optimizer.apply(
                [tf.constant([1.0, 2, 3]) * optimizer.scale_loss(tf.ones(()))], [weight]
            )
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)
    assert float(scaled.loss_scale) == 2.0**16


def test_steps_that_no_scale_makes_finite_are_skipped_and_counted():
    for scales in (False, True):
        weight = keras.Variable(np.ones(3, "float32"), name="kernel")
        optimizer = BertAdamW(0.1, dynamic_loss_scale=scales)
        optimizer.build([weight])
        if scales:
            optimizer.loss_scale.assign(2.0)
        for bad_value in (0.0, np.nan, np.inf, 0.0, np.nan):
            optimizer.apply([tf.constant([1.0, 2, 3 + bad_value])], [weight])
        assert np.isfinite(weight.numpy()).all()
        assert int(optimizer.iterations) == 5
        # Of three such steps the first halved the scale to 1.
        assert int(optimizer.skipped) == (2 if scales else 3)
        assert int(optimizer.last_skipped) == 4


def test_the_norm_of_every_gradient_is_stored():
    weights = [keras.Variable(np.zeros(n, "float32"), name="kernel") for n in (2, 3, 1)]
    optimizer = BertAdamW(0.1)
    optimizer.build(weights)
    optimizer.apply([tf.constant([3.0, 4]), None, tf.constant([12.0])], weights)
    np.testing.assert_allclose(optimizer.gradient_norms, [5, 0, 12])
    np.testing.assert_allclose(optimizer.gradient_norm, 13)
