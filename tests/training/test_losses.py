import keras
import numpy as np
import pytest

from bert_keras.training.losses import MaskedLMLoss


def cross_entropy(logits, labels):
    logits = logits - logits.max(-1, keepdims=True)
    log_softmax = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_softmax, labels[..., None], -1)[..., 0]


def test_masked_lm_loss_is_the_weighted_mean_over_real_predictions():
    random = np.random.default_rng(0)
    logits = random.normal(size=(3, 4, 7)).astype("float32") * 3
    labels = random.integers(0, 7, (3, 4))
    weights = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], "float32")
    expected = (cross_entropy(logits, labels) * weights).sum() / (weights.sum() + 1e-5)
    assert float(MaskedLMLoss()(labels, logits, weights)) == pytest.approx(expected, rel=1e-6)


def test_a_batch_without_predictions_costs_nothing():
    logits = np.ones((2, 3, 5), "float32")
    assert float(MaskedLMLoss()(np.zeros((2, 3), int), logits, np.zeros((2, 3)))) == 0.0


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
