"""The losses of sentence embeddings and their gradients, against those of sentence-transformers."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.training.matryoshka import MatryoshkaLoss
from bert_keras.training.sentence_losses import (
    CoSENTLoss,
    CosineSimilarityLoss,
    MarginMSELoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytest.importorskip(
    "sentence_transformers", reason='needs sentence-transformers: "bert-keras[parity]"'
)
pytestmark = pytest.mark.extra

SIZE, DIMENSIONS, WEIGHTS = 48, (48, 16, 4), (1.0, 0.5, 0.25)
RANKING = MultipleNegativesRankingLoss
# Our loss, the class and the arguments of theirs, the number of texts, the columns of targets.
PAIRS = {
    "pairs": (RANKING(), "MultipleNegativesRankingLoss", {}, 2, ()),
    "negatives": (RANKING(), "MultipleNegativesRankingLoss", {}, 5, ()),
    "dot": (
        RANKING(scale=0.5, similarity="dot"),
        "MultipleNegativesRankingLoss",
        {"scale": 0.5, "similarity_fct": "dot_score"},
        3,
        (),
    ),
    "symmetric": (RANKING(directions="both"), "MultipleNegativesSymmetricRankingLoss", {}, 3, ()),
    "directions": (
        RANKING(directions="both"),
        "MultipleNegativesRankingLoss",
        {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"},
        2,
        (),
    ),
    "cosent": (CoSENTLoss(), "CoSENTLoss", {}, 2, ()),
    "cosine": (CosineSimilarityLoss(), "CosineSimilarityLoss", {}, 2, ()),
    "triplet": (TripletLoss(), "TripletLoss", {}, 3, ()),
    "triplet of cosines": (
        TripletLoss(distance="cosine", margin=0.2),
        "TripletLoss",
        {"distance_metric": "COSINE", "triplet_margin": 0.2},
        3,
        (),
    ),
    "margin": (MarginMSELoss(), "MarginMSELoss", {}, 3, ()),
    "margins": (MarginMSELoss(), "MarginMSELoss", {}, 4, (2,)),
    "scores": (
        MarginMSELoss(similarity="cosine"),
        "MarginMSELoss",
        {"similarity_fct": "pairwise_cos_sim"},
        4,
        (3,),
    ),
}


def theirs(name, arguments, embeddings, targets, *, is_matryoshka):
    from sentence_transformers import util
    from sentence_transformers.sentence_transformer import losses

    arguments = dict(arguments)
    if "similarity_fct" in arguments:
        arguments["similarity_fct"] = getattr(util, arguments["similarity_fct"])
    if "distance_metric" in arguments:
        kind = losses.TripletDistanceMetric
        arguments["distance_metric"] = getattr(kind, arguments["distance_metric"])
    model = Model()
    loss = getattr(losses, name)(model, **arguments)
    if is_matryoshka:
        loss = losses.MatryoshkaLoss(model, loss, DIMENSIONS, WEIGHTS)
    columns = [torch.tensor(column, requires_grad=True) for column in embeddings.swapaxes(0, 1)]
    value = loss([{"embeddings": column} for column in columns], torch.tensor(targets))
    value.backward()
    return value.item(), np.stack([column.grad.numpy() for column in columns], axis=1)


class Model(torch.nn.Module):
    """A model whose input is the embedding."""

    def forward(self, features):
        return {"sentence_embedding": features["embeddings"]}

    def get_embedding_dimension(self):
        return SIZE


def ours(loss, embeddings, targets):
    y_pred = tf.constant(embeddings)
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        value = loss(targets, y_pred)
    return value.numpy(), tape.gradient(value, y_pred).numpy()


@pytest.mark.parametrize("is_matryoshka", [False, True], ids=["whole", "matryoshka"])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:The MultipleNegativesSymmetric")
def test_value_and_gradient(name, dtype, is_matryoshka):
    """Theirs is computed in float64, in which the gradients differ by less than 1e-12."""
    loss, class_name, arguments, num_texts, columns = PAIRS[name]
    random = np.random.default_rng(0)
    embeddings = random.normal(size=(32, num_texts, SIZE))
    embeddings[:, 1:] += embeddings[:, :1]  # the texts of an example are alike
    embeddings = (embeddings / 7).astype(dtype)  # about as long as 1
    targets = random.integers(0, 9, (32, *columns)) / 8
    right = theirs(
        *(class_name, arguments, embeddings.astype("float64"), targets), is_matryoshka=is_matryoshka
    )
    if is_matryoshka:
        loss = MatryoshkaLoss(loss, dimensions=DIMENSIONS, weights=WEIGHTS)
    value, gradient = ours(loss, embeddings, targets)
    assert value == pytest.approx(right[0], rel=1e-6, abs=1e-6)
    largest = np.abs(right[1]).max()
    assert largest > 1e-3
    tolerance = 1e-12 if dtype == "float64" else 1e-6 * max(1, largest)
    np.testing.assert_allclose(gradient, right[1], rtol=0, atol=tolerance)
