"""Sentence encoders and losses of bert_keras and of sentence-transformers, with equal values."""

import csv
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
import torch
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer import losses

from bert_keras import BertSentenceEncoder, NormalizeModule
from bert_keras.config import TEXT_POOLINGS, BertConfig, DenseModule, EmbeddingConfig
from bert_keras.families import FAMILIES
from bert_keras.training import sentence_losses
from tests.relatives import CHANGES

DENSE = DenseModule(units=24, activation="gelu")
IDENTITY = DenseModule(units=8, activation="identity")
CASES = {
    **{name: EmbeddingConfig(pooling=(name,)) for name in TEXT_POOLINGS},
    "all": EmbeddingConfig(pooling=TEXT_POOLINGS),
    "reversed": EmbeddingConfig(pooling=TEXT_POOLINGS[::-1], modules=()),
    "dense": EmbeddingConfig(
        pooling=("cls", "mean"),
        modules=(DENSE, NormalizeModule(), DenseModule(units=16, has_bias=False)),
    ),
    "relu": EmbeddingConfig(modules=(DenseModule(units=40, activation="relu"), IDENTITY)),
}
SIZE, DIMENSIONS, WEIGHTS = 48, (48, 16, 4), (1.0, 0.5, 0.25)
RANKING = sentence_losses.MultipleNegativesRankingLoss
# Our loss, their class and its arguments, the number of texts.
THEIR_RANKING = "MultipleNegativesRankingLoss"
BOTH = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
DOT = {"scale": 0.5, "similarity_fct": "dot_score"}
PAIRS = {
    "pairs": (RANKING(), THEIR_RANKING, {}, 2),
    "negatives": (RANKING(), THEIR_RANKING, {}, 5),
    "dot": (RANKING(scale=0.5, similarity="dot"), THEIR_RANKING, DOT, 3),
    "symmetric": (RANKING(directions="both"), "MultipleNegativesSymmetricRankingLoss", {}, 3),
    "directions": (RANKING(directions="both"), THEIR_RANKING, BOTH, 2),
    "cosent": (sentence_losses.CoSENTLoss(), "CoSENTLoss", {}, 2),
    "cosine": (sentence_losses.CosineSimilarityLoss(), "CosineSimilarityLoss", {}, 2),
}


def model_of(embedding, *, tokenizer, kind="bert", **changes) -> BertSentenceEncoder:
    """Builds a small model whose random weights are so large that texts differ."""
    keras.utils.set_random_seed(1)
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "max_positions": 64}
    config = BertConfig(
        vocab_size=len(tokenizer.vocabulary),
        initializer_stddev=0.2,
        has_pooler=FAMILIES[kind].has_pooler,
        **{**sizes, **CHANGES.get(kind, {}), **changes},
    )
    model = BertSentenceEncoder(config, embedding=embedding)
    model.tokenizer = tokenizer
    return model


def written(model: BertSentenceEncoder, folder: Path):
    """Saves a model and returns what both sides read from its folder."""
    model.save_pretrained(folder, format="sentence-transformers")
    return read(folder)


def read(folder: Path):
    """Returns the model of both sides for a folder of sentence-transformers."""
    theirs = SentenceTransformer(str(folder), device="cpu")
    return BertSentenceEncoder.from_pretrained(folder), theirs


def embeddings(ours, theirs, texts: list[str], **prompts) -> list[np.ndarray]:
    """Returns the embeddings of both sides, scaled to length 1."""
    vectors = [side.encode(texts, **prompts) for side in (ours, theirs)]
    assert vectors[0].dtype == vectors[1].dtype and vectors[0].shape == vectors[1].shape
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors]


def real_sentences(path: Path, *, num_texts: int = 1_000) -> list[str]:
    """Returns the sentences of the first pairs of a file of STS-B."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return [row[column] for row in rows for column in ("sentence1", "sentence2")][:num_texts]


class Model(torch.nn.Module):
    """A model whose input is the embedding."""

    def forward(self, features):
        return {"sentence_embedding": features["embeddings"]}

    def get_embedding_dimension(self):
        return SIZE


def their_loss(name: str, vectors, targets, *, is_matryoshka: bool):
    """Returns the value and the gradient of a loss of sentence-transformers."""
    _, class_name, arguments, *_ = PAIRS[name]
    arguments = dict(arguments)
    if "similarity_fct" in arguments:
        arguments["similarity_fct"] = getattr(util, arguments["similarity_fct"])
    model = Model()
    loss = getattr(losses, class_name)(model, **arguments)
    if is_matryoshka:
        loss = losses.MatryoshkaLoss(model, loss, DIMENSIONS, WEIGHTS)
    columns = [torch.tensor(column, requires_grad=True) for column in vectors.swapaxes(0, 1)]
    value = loss([{"embeddings": column} for column in columns], torch.tensor(targets))
    value.backward()
    return value.item(), np.stack([column.grad.numpy() for column in columns], axis=1)


def our_loss(name: str, vectors, targets, *, is_matryoshka: bool):
    """Returns the value and the gradient of a loss of bert_keras."""
    loss = PAIRS[name][0]
    if is_matryoshka:
        loss = sentence_losses.MatryoshkaLoss(loss, dimensions=DIMENSIONS, weights=WEIGHTS)
    y_pred = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        value = loss(targets, y_pred)
    return value.numpy(), tape.gradient(value, y_pred).numpy()


def loss_inputs(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns embeddings in float64 and targets of a loss."""
    num_texts = PAIRS[name][3]
    random = np.random.default_rng(0)
    vectors = random.normal(size=(32, num_texts, SIZE))
    vectors[:, 1:] += vectors[:, :1]  # the texts of an example are alike
    return vectors / 7, random.integers(0, 9, 32) / 8  # about as long as 1
