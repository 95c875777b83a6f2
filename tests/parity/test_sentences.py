"""Sentence encoders, their losses and scores, against sentence-transformers."""

import dataclasses

import numpy as np
import pytest

from bert_keras import BertClassifier, BertSentenceEncoder, load_exported
from bert_keras.config import EmbeddingConfig
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.sentences.pairs import SentencePair
from bert_keras.downstream.sentences.retrieval import EncodedCorpus, QueryExample
from bert_keras.families import FAMILIES
from bert_keras.models.loading import load_model
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
package = pytest.importorskip("sentence_transformers", reason='needs "bert-keras[parity]"')
evaluation = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")

import sentence_sides as sides  # noqa: E402

pytestmark = pytest.mark.extra

MOST = 1e-6  # largest difference of a value of two vectors of length 1
SENTENCES = [
    "Where can I moor a boat?",
    "There is a landing stage below the bridge.",
    "Der Zug nach Köln fährt um 8:05 Uhr ab.",
    "日本語の文。 Ça va? naïve café — 100 %",
    "Words " * 400 + "beyond the longest input",
    "",
]
PROMPTS = {"query": "find the answer to: ", "passage": ""}


@pytest.fixture(scope="module")
def tokenizer(real_weights):
    return WordPieceTokenizer(Vocabulary.from_file(real_weights / "vocab.txt"))


def assert_equal(ours, theirs, texts, **prompts):
    one, other = sides.embeddings(ours, theirs, texts, **prompts)
    assert np.abs(one - other).max() <= MOST
    assert np.ptp(one @ one.T) > 0.01


@pytest.mark.parametrize("name", sides.CASES)
def test_random_weights(tokenizer, tmp_path, name):
    ours, theirs = sides.written(
        sides.model_of(sides.CASES[name], tokenizer=tokenizer), tmp_path / "model"
    )
    assert ours.embedding == sides.CASES[name]
    assert theirs.max_seq_length == 64
    assert_equal(ours, theirs, SENTENCES)
    theirs.save(str(tmp_path / "again"))
    again = BertSentenceEncoder.from_pretrained(tmp_path / "again")
    assert again.embedding.modules == ours.embedding.modules
    np.testing.assert_array_equal(again.encode(SENTENCES), ours.encode(SENTENCES))


def test_prompts(tokenizer, tmp_path):
    embedding = EmbeddingConfig(prompts=PROMPTS, default_prompt_name="query")
    ours, theirs = sides.written(sides.model_of(embedding, tokenizer=tokenizer), tmp_path / "model")
    assert theirs.prompts.items() >= PROMPTS.items()
    assert theirs.default_prompt_name == "query"
    for prompt in ({}, {"prompt_name": "passage"}, {"prompt": "in other words: "}):
        assert_equal(ours, theirs, SENTENCES, **prompt)


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if kind not in ("bert", "neobert")])
def test_relatives(tokenizer, subwords, vocabulary_of, tmp_path, kind):
    if kind in (*subwords, "mpnet"):
        tokenizer = tokenizer_of(vocabulary_of(kind), lowercase=True)
    model = sides.model_of(sides.CASES["dense"], tokenizer=tokenizer, kind=kind)
    texts = [text for text in SENTENCES if text.isascii()]
    assert_equal(*sides.written(model, tmp_path / "model"), texts)


def test_trained_weights(real_weights):
    """all-MiniLM-L6-v2: the mean, scaled to length 1, of at most 256 tokens."""
    ours, theirs = sides.read(real_weights)
    assert ours.embedding == EmbeddingConfig()
    assert ours.metadata.max_length == 256
    assert_equal(ours, theirs, SENTENCES)


@pytest.mark.parametrize("is_matryoshka", [False, True], ids=["whole", "matryoshka"])
@pytest.mark.parametrize("name", sides.PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:The MultipleNegativesSymmetric")
def test_value_and_gradient(name, dtype, is_matryoshka):
    """Theirs is computed in float64, in which the gradients differ by less than 1e-12."""
    vectors, targets = sides.loss_inputs(name)
    vectors = vectors.astype(dtype)
    value, gradient = sides.our_loss(name, vectors, targets, is_matryoshka=is_matryoshka)
    wanted = sides.their_loss(name, vectors.astype("float64"), targets, is_matryoshka=is_matryoshka)
    assert value == pytest.approx(wanted[0], rel=1e-6, abs=1e-6)
    largest = np.abs(wanted[1]).max()
    assert largest > 1e-3
    tolerance = 1e-12 if dtype == "float64" else 1e-6 * max(1, largest)
    np.testing.assert_allclose(gradient, wanted[1], rtol=0, atol=tolerance)


SIZE, CUT = 24, 8
TOLERANCE = {"rel": 0, "abs": 1e-6}


@pytest.fixture
def model():
    """A model of sentence-transformers without modules: the embedding of "7" is `vectors`[7]."""
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


def retrieval_scores(task, examples, vectors, *, num_queries):
    """Scores rankings of all texts after the first `num_queries`, which are the queries."""
    num_passages = len(vectors) - num_queries
    encoded = EncodedCorpus(
        texts=((),), max_length=8, vocabulary=None,
        corpus=tuple(str(n) for n in range(num_queries, len(vectors))),
        query_rows=[num_passages + int(each.query) for each in examples],
        passage_rows=[[int(text) - num_queries for text in each.passages] for each in examples],
    )  # fmt: skip
    outputs = [*vectors[num_queries:], *vectors[:num_queries]]
    return task.score(examples, task.predictions(examples, encoded, outputs))


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
    ours = retrieval_scores(task, examples, model.vectors, num_queries=500)
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
    ours = retrieval_scores(task, examples, model.vectors, num_queries=300)
    texts = [[str(n + start) for n in range(300)] for start in (0, 300, 600)]
    theirs = evaluation.TripletEvaluator(*texts, main_similarity_function="cosine")(model)
    expected = theirs["cosine_accuracy"]
    assert ours["triplet_accuracy"] == pytest.approx(expected, **TOLERANCE) and 0 < expected < 1


@pytest.mark.parametrize("activation", ["Sigmoid", "Identity"])
def test_cross_encoders(tokenizer, tmp_path, activation):
    config = sides.model_of(EmbeddingConfig(), tokenizer=tokenizer).config
    model = BertClassifier(dataclasses.replace(config, has_pooler=True), num_labels=1)
    model.tokenizer = tokenizer
    model.save_pretrained(tmp_path / "first", format="huggingface")
    chosen = getattr(torch.nn, activation)()
    theirs = package.CrossEncoder(str(tmp_path / "first"), activation_fn=chosen, device="cpu")
    theirs.save_pretrained(str(tmp_path / "theirs"))
    ours, pairs = load_model(tmp_path / "theirs"), (SENTENCES[:5], SENTENCES[1:])

    def scores(model, **options):
        return np.array([each["score"] for each in model.predict(pairs, **options)])

    expected = package.CrossEncoder(str(tmp_path / "theirs"), device="cpu").predict(
        [*zip(*pairs, strict=True)]
    )
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(scores(ours, verbose=0), expected, atol=1e-5)
    ours.fit(pairs, [1.0, 0.0, 0.0, 1.0, 0.0], epochs=20, learning_rate=3e-3, verbose=0)
    trained = scores(ours, verbose=0)
    assert trained[[0, 3]].min() > trained[[1, 2, 4]].max()
    ours.save_pretrained(tmp_path / "ours", format="huggingface")
    again = package.CrossEncoder(str(tmp_path / "ours"), device="cpu").predict(
        [*zip(*pairs, strict=True)]
    )
    np.testing.assert_allclose(again, trained, atol=1e-5)
    folder = ours.export(tmp_path / "served" / "1", format="litert")
    np.testing.assert_allclose(scores(load_exported(folder)), trained, atol=1e-5)
