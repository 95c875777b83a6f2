"""The scores of sentence embeddings against the evaluators of sentence-transformers."""

import dataclasses

import numpy as np
import pytest

from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.sentences.pairs import SentencePair
from bert_keras.downstream.sentences.retrieval import EncodedCorpus, QueryExample

REASON = 'needs sentence-transformers: pip install "bert-keras[parity]"'
evaluation = pytest.importorskip(
    "sentence_transformers.sentence_transformer.evaluation", reason=REASON
)
pytestmark = pytest.mark.extra

SIZE, CUT = 24, 8
TOLERANCE = {"rel": 0, "abs": 1e-6}


@pytest.fixture
def model():
    """A model of sentence-transformers without modules: the embedding of "7" is `vectors`[7]."""
    package = pytest.importorskip("sentence_transformers", reason=REASON)
    torch = pytest.importorskip("torch", reason=REASON)
    vectors = np.random.default_rng(1).normal(size=(900, SIZE)).astype(np.float32)

    class Model(package.SentenceTransformer):
        def encode(self, inputs, convert_to_tensor=False, truncate_dim=None, **kwargs):
            rows = vectors[[int(text) for text in inputs], :truncate_dim]
            return torch.tensor(rows) if convert_to_tensor else rows

    model = Model(modules=[torch.nn.Identity()], device="cpu")
    model.similarity_fn_name = "cosine"
    model.vectors = vectors
    return model


@pytest.mark.parametrize("size", [SIZE, CUT])
def test_correlations(model, size):
    task = dataclasses.replace(named_task("sentence-pairs"), truncate_dim=size)
    scores = np.random.default_rng(2).integers(0, 20, 450) / 4  # with ties
    examples = [SentencePair((str(n), str(n + 450)), s, "") for n, s in enumerate(scores.tolist())]
    outputs = np.stack([model.vectors[:450], model.vectors[450:]], axis=1)
    ours = task.score(examples, task.predictions(examples, None, outputs))
    theirs = evaluation.EmbeddingSimilarityEvaluator(
        *zip(*(each.texts for each in examples), strict=True),
        scores.tolist(),
        main_similarity="cosine",
        truncate_dim=size,
        show_progress_bar=False,
    )(model)
    for name in ("spearman", "pearson"):
        assert ours[name] == pytest.approx(theirs[f"{name}_cosine"], **TOLERANCE)


@pytest.mark.parametrize("cutoff", [3, 10])
def test_rankings(model, cutoff):
    task = dataclasses.replace(named_task("retrieval"), cutoff=cutoff)
    random = np.random.default_rng(3)
    examples = [
        QueryExample(str(query), (str(500 + random.integers(400)),))
        for query in range(500)
        for _ in range(random.integers(1, 4))
    ]
    relevant = {}
    for each in examples:
        relevant.setdefault(each.query, set()).update(each.passages)
        row = int(each.query)  # so that rankings contain relevant passages
        model.vectors[row] += 0.7 * model.vectors[int(each.passages[0])]
    corpus = {str(n): str(n) for n in range(500, 900)}
    encoded = EncodedCorpus(
        texts=((),), max_length=8, vocabulary=None,
        corpus=tuple(corpus),
        query_rows=[400 + int(each.query) for each in examples],
        passage_rows=[[int(text) - 500 for text in each.passages] for each in examples],
    )  # fmt: skip
    outputs = [*model.vectors[500:], *model.vectors[:500]]
    ours = task.score(examples, task.predictions(examples, encoded, outputs))
    theirs = evaluation.InformationRetrievalEvaluator(
        {str(n): str(n) for n in range(500)},
        corpus,
        relevant,
        mrr_at_k=[cutoff],
        ndcg_at_k=[cutoff],
        accuracy_at_k=[1],
        precision_recall_at_k=[cutoff],
        map_at_k=[cutoff],
    )(model)
    names = [f"ndcg@{cutoff}", f"mrr@{cutoff}", f"recall@{cutoff}", "accuracy@1"]
    assert [*ours] == names and 0.1 < ours[names[0]] < 0.9
    for name in names:
        assert ours[name] == pytest.approx(theirs[f"cosine_{name}"], **TOLERANCE)


def test_triplets(model):
    task = dataclasses.replace(named_task("retrieval"), negative_columns=("negative",))
    examples = [QueryExample(str(n), (str(n + 300), str(n + 600))) for n in range(300)]
    corpus = tuple(str(n) for n in range(300, 900))
    encoded = EncodedCorpus(
        texts=((),), max_length=8, vocabulary=None,
        corpus=corpus,
        query_rows=list(range(600, 900)),
        passage_rows=[[n, n + 300] for n in range(300)],
    )  # fmt: skip
    outputs = [*model.vectors[300:], *model.vectors[:300]]
    ours = task.score(examples, task.predictions(examples, encoded, outputs))
    texts = [[str(n + start) for n in range(300)] for start in (0, 300, 600)]
    theirs = evaluation.TripletEvaluator(*texts, main_similarity_function="cosine")(model)
    expected = theirs["cosine_accuracy"]
    assert ours["triplet_accuracy"] == pytest.approx(expected, **TOLERANCE) and 0 < expected < 1
