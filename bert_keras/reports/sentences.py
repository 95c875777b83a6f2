"""Compares cosines with scores, and rankings with the relevant passages."""

import dataclasses
from collections.abc import Mapping, Sequence

from scipy.stats import rankdata

from bert_keras.downstream.sentences.pairs import SentencePair, SentencePairsTask
from bert_keras.downstream.sentences.retrieval import (
    QueryExample,
    RetrievalTask,
    relevant_passages,
)
from bert_keras.downstream.sentences.task import SentencePrediction, score_name
from bert_keras.reports.charts import scatter, svg
from bert_keras.reports.findings import Errors, Findings, small
from bert_keras.reports.page import Cell, MarkedText, Section, Table, decimals


def pair_findings(
    task: SentencePairsTask,
    examples: Sequence[SentencePair],
    predictions: Sequence[SentencePrediction],
) -> Findings:
    """Returns a chart of the ranks by score and by cosine, and the pairs whose ranks differ."""
    scores, cosines = [e.score for e in examples], [p.value for p in predictions]
    ranks = list(zip(rankdata(scores).tolist(), rankdata(cosines).tolist(), strict=True))
    chart = svg(scatter("rank by cosine", ranks, x_axis="rank by score"))
    errors: Errors = []
    for example, cosine, (rank, predicted) in zip(examples, cosines, ranks, strict=True):
        if rank != predicted:
            line = small(example.location.rpartition(", ")[2])
            numbers = (example.score, cosine, rank, predicted)
            errors.append((abs(predicted - rank), [line, *example.texts, *map(decimals, numbers)]))
    return Findings(
        sections=[
            *_by_size(task.score(examples, predictions), predictions),
            Section(heading="Ranks by score and by cosine", charts={"ranks": chart}),
        ],
        columns=["example", *task.text_columns, "score", "cosine", "rank", "rank by cosine"],
        errors=errors,
        order="the largest differences of the two ranks first",
    )


def retrieval_findings(
    task: RetrievalTask, examples: Sequence[QueryExample], predictions: Sequence[SentencePrediction]
) -> Findings:
    """Returns the queries whose first passage is not relevant."""
    relevant = relevant_passages(examples)
    errors: Errors = []
    for example, prediction in zip(examples, predictions, strict=True):
        passages, cosines, example_cosines = dataclasses.astuple(prediction.value)
        # Predictions for queries without a positive have no cosine of it.
        cosine = next(iter(example_cosines), None)
        wanted = relevant[example.query]
        if passages[0] in wanted:
            continue
        ranks = [rank for rank, passage in enumerate(passages, start=1) if passage in wanted]
        cells = [
            example.query,
            _marked(passages[0], "bad", cosine=cosines[0]),
            _marked(example.passages[0], "good", cosine=cosine),
            str(ranks[0]) if ranks else f"after {len(passages)}",
        ]
        errors.append((0.0 if cosine is None else cosines[0] - cosine, cells))
    return Findings(
        sections=_by_size(task.score(examples, predictions), predictions),
        columns=["query", "first passage", "relevant passage", "rank of a relevant passage"],
        errors=errors,
        order="the largest differences of the two cosines first",
    )


def _marked(passage: str, kind: str, *, cosine: float | None) -> Cell:
    note = "" if cosine is None else f" {cosine:.3f}"
    return Cell([[MarkedText(passage, kind), MarkedText("", note=note)]])


def _by_size(
    scores: Mapping[str, float], predictions: Sequence[SentencePrediction]
) -> list[Section]:
    """Returns a table of the scores by the size of the embeddings, if there are several sizes."""
    sizes = [*predictions[0].smaller]
    if not sizes:
        return []
    suffixes = tuple(score_name("", size) for size in sizes)
    names = [name for name in scores if not name.endswith(suffixes)]
    rows = [["complete", *map(scores.get, names)]]
    rows += [[f"{size:,}", *(scores[score_name(n, size)] for n in names)] for size in sizes]
    table = Table(["components", *(name.replace("_", " ") for name in names)], rows)
    return [Section(heading="Size of the embeddings", table=table)]
