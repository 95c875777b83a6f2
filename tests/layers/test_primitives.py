"""Dropout and GELU give what Keras' own layer and function give, by other ways."""

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras.layers.primitives import Dropout, activate
from tests.factories import value_and_gradient
from tests.tensorflow_or_skip import tf


def test_gelu_in_training_equals_gelu_in_inference():
    x = np.array([*np.linspace(-12, 12, 1001), -200.0, 200.0, 0.0], "float32")
    (value, gradient), (expected, expected_gradient) = (
        value_and_gradient(lambda x, t=t: activate(x, activation="gelu", training=t), x)
        for t in (True, False)
    )
    np.testing.assert_allclose(value, expected, rtol=3e-6, atol=0)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=4e-7)


def ones(*shape):
    return np.ones(shape, "float32")


@pytest.mark.parametrize("shape", [(8, 160, 160), (40, 5001), (200_003,)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_each_value_independently_with_the_same_probability(shape, rate):
    layer, deviation = Dropout(rate, seed=1), (rate * (1 - rate)) ** 0.5  # of one value
    draws = [np.asarray(layer(ones(*shape), training=True)) for _ in range(3)]
    kept, again, third = (draw > 0 for draw in draws)
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation / kept.size**0.5
    np.testing.assert_allclose(draws[0][kept], 1 / (1 - rate), rtol=2e-4)
    x, other = kept.astype(float), np.asarray(Dropout(rate, seed=2)(ones(*shape), training=True))
    pairs = [(x[..., n:], x[..., :-n]) for n in (1, 2)] + [(x, each) for each in (again, third)]
    pairs += [(x[1:], x[:-1]), (x, other > 0)]
    for first, second in pairs:
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / x.size**0.5
    for axis in range(x.ndim):  # no row or column has more than its share
        others = tuple({*range(x.ndim)} - {axis})
        means, count = x.mean(others), x.size / shape[axis]
        assert np.abs(means - means.mean()).max() < 6 * deviation / count**0.5 or not others


def test_dropout_draws_by_its_seed_and_anew_in_each_call():
    first, same, other = (Dropout(0.5, seed=seed) for seed in (1, 1, 2))
    once, again = (np.asarray(first(ones(64, 33), training=True)) for _ in range(2))
    np.testing.assert_array_equal(once, same(ones(64, 33), training=True))
    assert 0.4 < (once == again).mean() < 0.6
    assert 0.4 < (once == np.asarray(other(ones(64, 33), training=True))).mean() < 0.6


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

    y, gradient, x = (tf.cast(each, "float32").numpy() for each in (*call(x), x))
    assert set(np.unique(gradient)) == {0.0, np.float32(tf.cast(4 / 3, dtype))}
    np.testing.assert_allclose(y, gradient * x, rtol=1e-2)


def test_dropout_traces_no_long_axis_and_no_int32_reshape():
    """TensorFlow has no axis of 2^31, and reshapes int32 in the memory of the host of a GPU."""
    spec = tf.TensorSpec((512, 16, 512, 512), "bfloat16")
    dropout = Dropout(0.1, seed=1, dtype="bfloat16")
    graph = tf.function(lambda x: dropout(x, training=True)).get_concrete_function(spec).graph
    shapes = [tensor.shape for op in graph.get_operations() for tensor in op.outputs]
    assert max(max(shape, default=0) for shape in shapes) < 2**31
    reshapes = [op for op in graph.get_operations() if op.type == "Reshape"]
    assert reshapes and all(op.outputs[0].dtype != tf.int32 for op in reshapes)


def test_dropout_of_rates_0_and_1_and_next_to_1_and_with_a_shared_mask():
    x, options = ones(4, 8), {"noise_shape": (4, 1), "seed": 1}
    expected = keras.layers.Dropout(0.5, **options)(x, training=True)
    np.testing.assert_array_equal(Dropout(0.5, **options)(x, training=True), expected)
    x = ops.ones((1000,))
    assert Dropout(0.0)(x, training=True) is x
    assert not np.asarray(Dropout(1.0)(x, training=True)).any()
    assert Dropout(0.5)(x) is x
    assert np.isfinite(Dropout(0.9999999)(x, training=True)).all()
    assert keras.layers.deserialize(keras.layers.serialize(Dropout(0.5, seed=3))).seed == 3
