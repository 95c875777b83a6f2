"""Defines the task `retrieval`: embeddings that find the passages for a query."""

import dataclasses
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.config import EmbeddingConfig, ModelMetadata
from bert_keras.data.encoded import Encoded, EncodedTexts, distinct_batches
from bert_keras.downstream.sentences.task import SentenceTask
from bert_keras.downstream.table import required_text, table_rows
from bert_keras.downstream.task import Scores
from bert_keras.errors import check_least
from bert_keras.fields import setting
from bert_keras.files import StrPath, write_text
from bert_keras.text.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from bert_keras.reports.evaluation import Findings

MAX_COSINES = 2**24  # the number of cosines in memory at once, which takes 64 MiB


@dataclass(frozen=True, slots=True)
class QueryExample:
    """A query with a relevant passage and passages that are not relevant."""

    query: str
    passages: tuple[str, ...]  # the positive, then the negatives
    location: str = field(default="", compare=False)  # where it was read, as "FILE, line N"


@dataclass(frozen=True, slots=True)
class Ranking:
    """The nearest passages of a query."""

    passages: tuple[str, ...]  # the nearest first
    cosines: tuple[float, ...]  # the cosine of each of these passages
    example_cosines: tuple[float, ...]  # the cosine of each of the example's own passages


Queries = Sequence[QueryExample]


@dataclass(frozen=True, kw_only=True)
class DistinctTexts(EncodedTexts):
    """Groups of texts; a batch has a text twice only if one example has it twice, as in SimCSE."""

    def shuffled_batches(self, *, batch_size: int, seed: int) -> Iterator[np.ndarray]:
        limit = self.max_length - self.vocabulary.num_specials(1)
        text_ids = {}  # ids of the tokens of a text -> id of the text
        flat = [text_ids.setdefault(tuple(ids[:limit]), len(text_ids)) for ids in self.texts[0]]
        texts_NG = np.array(flat, np.int64).reshape(len(self), -1)
        return distinct_batches(self.lengths, texts_NG, batch_size=batch_size, seed=seed)


@dataclass(frozen=True, kw_only=True)
class EncodedCorpus(EncodedTexts):
    """The distinct texts of queries and passages, one in each row."""

    corpus: tuple[str, ...]  # the distinct passages, which are the first rows
    query_rows: Sequence[int]  # the row of each example's query
    passage_rows: Sequence[Sequence[int]]  # the rows of each example's passages


@dataclass(frozen=True, kw_only=True)
class RetrievalTask(SentenceTask[QueryExample, Ranking]):
    """Retrieval of passages, from the distinct passages of a file; the positives are relevant."""

    query_column: str = setting("query", "column of the queries")
    positive_column: str = setting("positive", "column of the texts that answer the queries")
    negative_columns: tuple[str, ...] = setting((), "columns of texts that do not answer them")
    query_prompt: str = setting("", 'text before each query, such as "query: "')
    passage_prompt: str = setting("", 'text before each passage, such as "passage: "')
    cutoff: int = setting(10, "number of passages in a ranking")
    loss: str = setting("ranking", "name of the loss")

    prediction_file: ClassVar[str] = "predictions.jsonl"
    label_field: ClassVar[str] = "passages"
    losses: ClassVar[tuple[str, ...]] = ("ranking",)

    @property
    def metric(self) -> str:
        return f"ndcg@{self.cutoff}"

    def __post_init__(self):
        super().__post_init__()
        check_least(self, 1, "cutoff")

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig:
        """Returns the model's embedding with the prompts of the task."""
        embedding = super().embedding(source)
        prompts = {"query": self.query_prompt, "document": self.passage_prompt}
        if not any(prompts.values()):
            return embedding
        return dataclasses.replace(embedding, prompts={**embedding.prompts, **prompts})

    def read(self, path: StrPath, *, split: str = "train") -> list[QueryExample]:
        """Reads queries and their passages."""
        settings = {
            "query_column": (self.query_column,),
            "positive_column": (self.positive_column,),
            "negative_columns": self.negative_columns,
        }
        columns = list(chain(*settings.values()))
        examples = []
        for location, row in table_rows(path, columns=settings):
            query, *passages = (required_text(row, name, location=location) for name in columns)
            examples.append(QueryExample(query, tuple(passages), location))
        return examples

    def encode(self, examples: Queries, tokenizer: TextTokenizer) -> Encoded:
        """Encodes the queries with their passages; a batch has inputs of shape [B, G, T]."""
        groups = [
            [self.query_prompt + each.query, *(self.passage_prompt + p for p in each.passages)]
            for each in examples
        ]
        targets = np.zeros(len(examples), np.float32)
        return self.encode_groups(groups, tokenizer, targets=targets, layout=DistinctTexts)

    def encode_to_score(self, examples: Queries, tokenizer: TextTokenizer) -> EncodedCorpus:
        """Encodes each distinct text as a row; the rows have no loss."""
        corpus = dict.fromkeys(text for each in examples for text in each.passages)
        queries = dict.fromkeys(each.query for each in examples)
        passage_rows = {text: row for row, text in enumerate(corpus)}
        query_rows = {text: row for row, text in enumerate(queries, start=len(corpus))}
        groups = [[self.passage_prompt + text] for text in corpus]
        groups += [[self.query_prompt + text] for text in queries]
        return self.encode_groups(
            groups,
            tokenizer,
            layout=EncodedCorpus,
            corpus=tuple(corpus),
            query_rows=[query_rows[each.query] for each in examples],
            passage_rows=[[passage_rows[text] for text in each.passages] for each in examples],
        )

    def compare(
        self, examples: Queries, encoded: EncodedCorpus, units: np.ndarray
    ) -> list[Ranking]:
        """Returns the ranking of each query."""
        start = len(encoded.corpus)  # the first row of a query
        indices, cosines = rank_passages(units[start:], units[:start], cutoff=self.cutoff)
        return [
            Ranking(
                tuple(encoded.corpus[index] for index in indices[query - start]),
                tuple(cosines[query - start].tolist()),
                tuple((units[rows] @ units[query]).tolist()),
            )
            for query, rows in zip(encoded.query_rows, encoded.passage_rows, strict=True)
        ]

    def score(self, examples: Queries, predictions: Sequence[Ranking]) -> Scores:
        """Returns the scores of `ranking_scores` over distinct queries, and `triplet_accuracy` if
        there are negatives: the fraction of negatives whose cosine is smaller than the positive's.
        """
        passages_of = relevant_passages(examples)
        ranking_of = dict(zip((each.query for each in examples), predictions, strict=True))
        rankings = [ranking.passages for ranking in ranking_of.values()]
        relevant = [passages_of[query] for query in ranking_of]
        scores = ranking_scores(relevant, rankings, cutoff=self.cutoff)
        cosines = (ranking.example_cosines for ranking in predictions)
        triplets = [positive > other for positive, *others in cosines for other in others]
        return scores | ({"triplet_accuracy": float(np.mean(triplets))} if triplets else {})

    def findings(self, examples: Queries, predictions: Sequence[Ranking]) -> "Findings":
        """Returns the queries whose first passage is not relevant."""
        from bert_keras.reports.evaluation import Findings
        from bert_keras.reports.page import mark

        relevant, errors = relevant_passages(examples), []
        for example, prediction in zip(examples, predictions, strict=True):
            passages, wanted = prediction.passages, relevant[example.query]
            if passages[0] in wanted:
                continue
            ranks = [rank for rank, passage in enumerate(passages, start=1) if passage in wanted]
            rank = str(ranks[0]) if ranks else f"after {len(passages)}"
            first, cosine = prediction.cosines[0], prediction.example_cosines[0]
            wrong = mark(passages[0], "bad") + mark("", note=f" {first:.3f}")
            right = mark(example.passages[0], "good") + mark("", note=f" {cosine:.3f}")
            errors.append((first - cosine, [example.query, wrong, right, rank]))
        columns = ["query", "first passage", "relevant passage", "rank of a relevant passage"]
        return Findings([], columns, errors, "the largest differences of the two cosines first")

    def write_predictions(
        self, path: StrPath, examples: Queries, predictions: Sequence[Ranking]
    ) -> None:
        """Writes a JSON object for each example: the query, the nearest passages and cosines."""
        pairs = zip(examples, predictions, strict=True)
        rows = ({"query": each.query, **dataclasses.asdict(ranking)} for each, ranking in pairs)
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def relevant_passages(examples: Queries) -> dict[str, set[str]]:
    """Returns the positives of each distinct query."""
    relevant: dict[str, set[str]] = {}
    for each in examples:
        relevant.setdefault(each.query, set()).add(each.passages[0])
    return relevant


def rank_passages(
    queries_QE: np.ndarray, passages_PE: np.ndarray, *, cutoff: int, max_cosines: int = MAX_COSINES
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the nearest passages of each query; equal cosines keep the order of the passages.

    Args:
        queries_QE: Unit vectors, float32 [Q, E].
        passages_PE: Unit vectors, float32 [P, E].
        cutoff: The number of passages to find for each query.
        max_cosines: The number of cosines in memory at once.

    Returns:
        The indices and cosines of the passages, [Q, K], where K is the smaller of `cutoff` and P.
    """
    indices, cosines = [], []  # of each part of S queries: [S, K]
    step = max(1, max_cosines // len(passages_PE))
    for start in range(0, len(queries_QE), step):
        cosines_SP = queries_QE[start : start + step] @ passages_PE.T
        order_SK = np.argsort(-cosines_SP, axis=1, kind="stable")[:, :cutoff]
        indices.append(order_SK)
        cosines.append(np.take_along_axis(cosines_SP, order_SK, axis=1))
    return np.concatenate(indices), np.concatenate(cosines)


def ranking_scores(
    relevant: Sequence[Collection[str]], rankings: Sequence[Sequence[str]], *, cutoff: int
) -> Scores:
    """Scores the first K passages of each ranking, with binary relevance.

    Returns `ndcg@K` (normalised discounted cumulative gain), `mrr@K` (mean reciprocal rank of the
    first relevant passage), `recall@K`, and `accuracy@1` (queries whose first passage is relevant).
    """
    discounts = 1 / np.log2(np.arange(2, cutoff + 2))
    rows = []
    for wanted, ranking in zip(relevant, rankings, strict=True):
        hits = np.array([passage in wanted for passage in ranking[:cutoff]], bool)
        first = hits.argmax() if hits.any() else np.inf
        ideal = discounts[: len(wanted)].sum()
        gain = discounts[: len(hits)][hits].sum() / ideal
        rows.append((gain, 1 / (first + 1), hits.sum() / len(wanted), first == 0))
    names = (f"ndcg@{cutoff}", f"mrr@{cutoff}", f"recall@{cutoff}", "accuracy@1")
    return dict(zip(names, np.mean(rows, axis=0, dtype=float).tolist(), strict=True))


RETRIEVAL_TASK = RetrievalTask(name="retrieval")
