"""The losses of sentence embeddings equal their formulas, written with NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.sentence_losses import (
    CoSENTLoss,
    CosineSimilarityLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)

RANKING = MultipleNegativesRankingLoss
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


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def log_sum(logits):
    return np.log(np.exp(logits).sum(-1))


def ranking(texts, *, scale, directions):
    documents = np.concatenate([texts[:, index] for index in range(1, texts.shape[1])])
    own = scale * (texts[:, 0] * texts[:, 1]).sum(-1)
    losses = log_sum(scale * texts[:, 0] @ documents.T) - own
    if directions == "both":
        backwards = log_sum(scale * texts[:, 1] @ texts[:, 0].T) - own
        losses = (losses + backwards) / 2
    return losses


@pytest.mark.parametrize("num_texts", [2, 3, 4])
@pytest.mark.parametrize("directions", ["query_to_document", "both"])
@pytest.mark.parametrize(("similarity", "scale"), [("cosine", 20.0), ("dot", 1.0)])
def test_a_query_finds_its_document_among_those_of_the_batch(
    num_texts, directions, similarity, scale
):
    texts = embeddings(num_texts)
    loss = RANKING(scale=scale, similarity=similarity, directions=directions)
    vectors = unit(texts) if similarity == "cosine" else texts
    expected = ranking(vectors.astype("float64"), scale=scale, directions=directions)
    np.testing.assert_allclose(loss.call(None, texts), expected, rtol=1e-6, atol=2e-6)
    weights = np.array([1, 0, 2, 1, 1], "float32")
    assert float(loss(np.zeros(5), texts)) == pytest.approx(expected.mean(), rel=1e-6)
    weighted = float(loss(np.zeros(5), texts, weights))
    assert weighted == pytest.approx((expected * weights).sum() / 5, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_pairs_in_the_wrong_order_are_penalised(dtype):
    texts, targets = embeddings(2), (3 * SCORES).astype(dtype)
    cosines = 20 * (unit(texts[:, 0]) * unit(texts[:, 1])).sum(-1).astype("float64")
    total = 1.0
    for i in range(5):
        total += sum(np.exp(cosines[i] - cosines[j]) for j in range(5) if targets[i] < targets[j])
    assert float(CoSENTLoss()(targets, texts)) == pytest.approx(np.log(total), rel=1e-6)
    assert float(CoSENTLoss()(targets[:, None], texts)) == pytest.approx(np.log(total), rel=1e-6)
    assert float(CoSENTLoss()(np.ones(5), texts)) == 0  # equal targets have no order


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
    y_pred = tf.constant(texts)
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        value = loss(SCORES, y_pred)
    assert np.isfinite(tape.gradient(value, y_pred)).all()


def test_a_loss_of_short_floats_is_computed_in_float32():
    texts = keras.ops.cast(embeddings(2), "bfloat16")
    found = RANKING()(SCORES, texts)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    assert float(found) == float(RANKING()(SCORES, keras.ops.cast(texts, "float32")))


def test_other_shapes_and_arguments_are_refused():
    two, nested = embeddings(2), MatryoshkaLoss(RANKING(), dimensions=[16, 8])
    for call, message in (
        (lambda: CoSENTLoss()(SCORES, embeddings(3)), r"\(5, 3, 8\); .*two texts, whose"),
        (lambda: RANKING()(SCORES, two[:, 0]), r"shape \(5, 8\); .*a query, its document and"),
        (lambda: CoSENTLoss()(np.ones((5, 2)), two), r"shape \(5, 2\); expected one number"),
        (lambda: CoSENTLoss()(SCORES, two, np.ones(5)), "takes no sample weights"),
        (lambda: nested(SCORES, two), "a dimension is 16; the size of the embeddings is 8"),
        (lambda: RANKING(similarity="l2"), "no similarity is called"),
        (lambda: MatryoshkaLoss(RANKING(), dimensions=[]), r"dimensions is \(\)"),
        (lambda: MatryoshkaLoss(RANKING(), dimensions=[4, 2], weights=[1.0]), "a weight for each"),
    ):
        with pytest.raises(InputError, match=message):
            call()
