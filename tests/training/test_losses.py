"""The masked-LM loss and accuracy equal their formulas, for every dtype, weight and label."""

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

from bert_keras.distribution.loss import global_loss
from bert_keras.errors import InputError
from bert_keras.training.losses import MaskedLMLoss, is_best
from tests.factories import value_and_gradient
from tests.tensorflow_or_skip import tf


def cross_entropy(logits, labels):
    return -np.take_along_axis(log_softmax(logits, -1), labels[..., None], -1)[..., 0]


def test_masked_lm_loss_is_the_weighted_mean_over_real_predictions():
    random = np.random.default_rng(0)
    logits = random.normal(size=(3, 4, 7)).astype("float32") * 3
    labels = random.integers(0, 7, (3, 4))
    weights = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], "float32")
    expected = (cross_entropy(logits, labels) * weights).sum() / (weights.sum() + 1e-5)
    assert float(MaskedLMLoss()(labels, logits, weights)) == pytest.approx(expected, rel=1e-6)
    assert float(MaskedLMLoss()(labels, logits, 0 * weights)) == 0.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_loss_of_short_floats_is_computed_in_float32(dtype):
    random = np.random.default_rng(0)
    logits = keras.ops.cast(random.normal(size=(30, 100, 7)) * 3, dtype)
    labels = random.integers(0, 7, (30, 100))
    weights = keras.ops.ones((30, 100), dtype)  # 3000: float16 counts to 2048, bfloat16 to 256
    loss = MaskedLMLoss()(labels, logits, weights)
    expected = cross_entropy(np.asarray(keras.ops.cast(logits, "float32")), labels).mean()
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_loss_and_gradient_equal_those_of_keras():
    random = np.random.default_rng(0)
    logits = (random.normal(size=(3, 4, 70)) * 9).astype("float32")
    labels, weights = random.integers(0, 70, (3, 4)), random.random((3, 4)).astype("float32")

    def keras_loss(labels, logits):
        return keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)

    ours, theirs = (
        value_and_gradient(lambda logits, loss=loss: loss(labels, logits) * weights, logits)
        for loss in (MaskedLMLoss().call, keras_loss)
    )
    for value, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6)


def test_labels_out_of_range_have_a_loss_of_nan():
    labels, logits = np.array([[3, -1, 7]]), np.zeros((1, 3, 7), "float32")
    assert np.isnan(MaskedLMLoss().call(labels, logits)).tolist() == [[False, True, True]]
    assert np.asarray(is_best(labels, logits)).tolist() == [[True, False, False]]


def test_no_tensor_has_an_axis_that_int32_cannot_index():
    """TensorFlow's shapes and indices of 512 x 138 x 30,522 logits are int32 for each axis."""

    @tf.function(autograph=False)
    def step(labels, logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = MaskedLMLoss()(labels, logits, tf.ones_like(labels))
        return tape.gradient(loss, logits), is_best(labels, logits)

    shape = 512, 138, 30_522
    specs = tf.TensorSpec(shape[:2], tf.int32), tf.TensorSpec(shape, tf.float32)
    graph = step.get_concrete_function(*specs).graph
    shapes = [tensor.shape for op in graph.get_operations() for tensor in op.outputs]
    sizes = [size for shape in shapes if shape.rank for size in shape if size is not None]
    assert 512 * 138 in sizes and max(sizes) < 2**31 < np.prod(shape)


def test_a_prediction_is_best_if_no_logit_is_higher():
    logits = np.array([[[1, 3, 2], [3, 1, 3], [0, 0, 9], [np.nan, 0, 0]]], "float32")
    found = is_best(np.array([[1, 2, 1, 1]]), logits)
    assert np.asarray(found).tolist() == [[True, True, False, False]]


def test_a_weight_for_each_row_may_have_an_axis_of_size_1_and_does_not_multiply_elements():
    targets, outputs = np.zeros((3, 2)), np.array([[1, 1], [2, 2], [3, 3]])
    for reduction in ("sum_over_batch_size", "mean_with_sample_weight"):
        loss = global_loss(keras.losses.MeanSquaredError(reduction=reduction))
        expected = float(loss(targets, outputs, np.array([1, 0, 1])))
        assert float(loss(targets, outputs, np.array([[1], [0], [1]]))) == expected
    loss = global_loss(keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    labels, logits = np.zeros((3, 3), "int32"), np.zeros((3, 3, 5), "float32")
    assert float(loss(labels, logits, np.ones((3, 1)))) == pytest.approx(np.log(5))
    with pytest.raises(InputError):
        loss(labels, logits, np.ones(3))
