"""The losses of sentence embeddings; tests/parity compares their values and gradients."""

import keras
import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.training import sentence_losses
from bert_keras.training.sentence_losses import CoSENTLoss, CosineSimilarityLoss, MatryoshkaLoss
from tests.factories import value_and_gradient

RANKING = sentence_losses.MultipleNegativesRankingLoss
LOSSES = [
    RANKING(),
    RANKING(scale=3.0, similarity="dot", directions="both"),
    CoSENTLoss(scale=10.0),
    CosineSimilarityLoss(reduction="mean_with_sample_weight"),
    MatryoshkaLoss(CoSENTLoss(scale=5.0), dimensions=[8, 4], weights=[1.0, 0.5]),
]


def embeddings(num_texts, *, size=8):
    return np.random.default_rng(num_texts).normal(size=(5, num_texts, size)).astype("float32")


SCORES = np.array([0.2, 0.9, 0.2, 0.5, 0.0], "float32")


def test_each_row_has_its_weight():
    texts, loss = embeddings(3), RANKING(directions="both")
    losses = np.asarray(loss.call(None, texts))
    assert float(loss(np.zeros(5), texts)) == pytest.approx(losses.mean(), rel=1e-6)
    weights = np.array([1, 0, 2, 1, 1], "float32")
    weighted = float(loss(np.zeros(5), texts, weights))
    assert weighted == pytest.approx((losses * weights).sum() / 5, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_only_the_order_of_scores_counts_for_cosent(dtype):
    texts, scores = embeddings(2), (3 * SCORES).astype(dtype)
    loss, ranks = float(CoSENTLoss()(scores, texts)), np.unique(scores, return_inverse=True)[1]
    assert loss == float(CoSENTLoss()(scores[:, None], texts)) > 0
    assert loss == float(CoSENTLoss()(ranks.astype("float32"), texts))
    assert float(CoSENTLoss()(np.ones(5), texts)) == 0  # equal scores have no order


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_keras_saves_and_loads_a_loss(loss):
    config = loss.get_config()
    type(loss).from_config(config)  # leaves config unchanged
    loaded = keras.losses.deserialize(keras.losses.serialize(loss))
    assert loaded.get_config() == loss.get_config() == config and type(loaded) is type(loss)
    texts = embeddings(2)
    assert float(loaded(SCORES, texts)) == float(loss(SCORES, texts))


@pytest.mark.parametrize(
    "loss", [RANKING(), CoSENTLoss(), CosineSimilarityLoss()], ids=lambda x: x.name
)
def test_equal_texts_and_embeddings_of_0_have_gradients(loss):
    texts = np.repeat(embeddings(1), 2, axis=1)
    texts[0] = 0
    _, gradient = value_and_gradient(lambda y_pred: loss(SCORES, y_pred), texts)
    assert np.isfinite(gradient).all()


def test_a_loss_of_short_floats_is_computed_in_float32():
    texts = keras.ops.cast(embeddings(2), "bfloat16")
    found = RANKING()(SCORES, texts)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    assert float(found) == float(RANKING()(SCORES, keras.ops.cast(texts, "float32")))


def test_other_shapes_and_arguments_are_refused():
    two, nested = embeddings(2), MatryoshkaLoss(RANKING(), dimensions=[16, 8])
    for loss, *arguments in (
        (CoSENTLoss(), SCORES, embeddings(3)),
        (RANKING(), SCORES, two[:, 0]),
        (CoSENTLoss(), np.ones((5, 2)), two),
        (CosineSimilarityLoss(), np.ones((1, 2)), two[:1]),
        (CoSENTLoss(), SCORES, two, np.ones(5)),
        (nested, SCORES, two),
    ):
        with pytest.raises(InputError):
            loss(*arguments)
    with pytest.raises(InputError):
        RANKING(similarity="l2")
