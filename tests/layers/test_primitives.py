"""Dropout and GELU give what Keras' own layer and function give, by other ways."""

import keras
import numpy as np
import pytest

from bert_keras.layers.primitives import Dropout, activate
from tests.tensorflow_or_skip import tf


def gelu_and_gradient(x, **options):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = activate(x, activation="gelu", **options)
    return y.numpy(), tape.gradient(y, x).numpy()


def test_gelu_in_training_equals_that_in_inference():
    x = tf.constant([*np.linspace(-12, 12, 1001), -200.0, 200.0, 0.0])
    expected, expected_gradient = gelu_and_gradient(x)
    value, gradient = gelu_and_gradient(x, training=True)
    np.testing.assert_allclose(value, expected, rtol=3e-6, atol=0)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=4e-7)


@pytest.mark.parametrize("shape", [(8, 50, 500), (40, 5001), (200_003,)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_the_rate_and_keeps_the_mean(shape, rate):
    dropped = Dropout(rate, seed=1)(tf.ones(shape), training=True).numpy()
    is_kept = dropped > 0
    assert is_kept.mean() == pytest.approx(1 - rate, abs=5 * (rate * (1 - rate) / 200_000) ** 0.5)
    np.testing.assert_allclose(dropped[is_kept], 1 / (1 - rate), rtol=2e-4)
    # Both halves of a random number are used, and they do not depend on each other.
    first, second = is_kept.ravel()[:200_000].reshape(-1, 2).T.astype(float)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02


def test_dropout_draws_by_its_seed_and_anew_in_each_call():
    first, same, other = (Dropout(0.5, seed=seed) for seed in (1, 1, 2))
    x = tf.ones((64, 33))
    once, again = first(x, training=True).numpy(), first(x, training=True).numpy()
    np.testing.assert_array_equal(once, same(x, training=True))
    assert 0.4 < (once == again).mean() < 0.6
    assert 0.4 < (once == other(x, training=True).numpy()).mean() < 0.6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout_in_a_graph_of_unknown_sizes(dtype):
    dropout = Dropout(0.25, seed=1, dtype=dtype)
    x = tf.cast(keras.random.normal((3, 5, 7), seed=1), dtype)

    @tf.function(input_signature=[tf.TensorSpec((None, None, None), dtype)])
    def call(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = dropout(x, training=True)
        return y, tape.gradient(y, x)

    y, gradient = map(_float32, call(x))
    assert set(np.unique(gradient)) == {0.0, np.float32(tf.cast(4 / 3, dtype))}
    np.testing.assert_allclose(y, gradient * _float32(x), rtol=1e-2)


def _float32(x):
    return tf.cast(x, "float32").numpy()


def test_dropout_traces_no_long_axis_and_no_int32_reshape():
    """TensorFlow has no axis of 2^31, and reshapes int32 in the memory of the host of a GPU."""
    spec = tf.TensorSpec((512, 16, 512, 512), "bfloat16")
    dropout = Dropout(0.1, seed=1, dtype="bfloat16")
    graph = tf.function(lambda x: dropout(x, training=True)).get_concrete_function(spec).graph
    shapes = [tensor.shape for op in graph.get_operations() for tensor in op.outputs]
    assert max(max(shape, default=0) for shape in shapes) < 2**31
    reshapes = [op for op in graph.get_operations() if op.type == "Reshape"]
    assert reshapes and all(op.outputs[0].dtype != tf.int32 for op in reshapes)


def test_dropout_with_the_same_mask_for_several_positions_is_that_of_keras():
    x, options = tf.ones((4, 8)), {"noise_shape": (4, 1), "seed": 1}
    expected = keras.layers.Dropout(0.5, **options)(x, training=True)
    np.testing.assert_array_equal(Dropout(0.5, **options)(x, training=True), expected)


def test_dropout_of_rates_0_and_1_and_next_to_1():
    x = tf.ones((1000,))
    assert Dropout(0.0)(x, training=True) is x
    assert not Dropout(1.0)(x, training=True).numpy().any()
    assert Dropout(0.5)(x) is x
    assert np.isfinite(Dropout(0.9999999)(x, training=True)).all()
    assert keras.layers.deserialize(keras.layers.serialize(Dropout(0.5, seed=3))).seed == 3
