"""Writes the page of an evaluation: scores, tables of labels, and errors."""

import os
from collections.abc import Mapping, Sequence

from bert_keras.downstream.classification import TextExample
from bert_keras.downstream.ner.tags import Sentence
from bert_keras.downstream.sentences.pairs import SentencePair
from bert_keras.downstream.sentences.retrieval import QueryExample
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.swag import SwagExample
from bert_keras.downstream.task import Task
from bert_keras.errors import counted
from bert_keras.files import write_text
from bert_keras.reports.answers import answer_findings
from bert_keras.reports.entities import entity_findings
from bert_keras.reports.findings import FindErrors
from bert_keras.reports.labels import choice_findings, text_findings
from bert_keras.reports.page import Report, Section, Table
from bert_keras.reports.sentences import pair_findings, retrieval_findings

# Type of the examples -> function; tasks with the same type of examples have the same tables.
FINDINGS: dict[type, FindErrors] = {
    TextExample: text_findings,
    SwagExample: choice_findings,
    Question: answer_findings,
    Sentence: entity_findings,
    SentencePair: pair_findings,
    QueryExample: retrieval_findings,
}
MAX_ERRORS = 200  # maximum number of errors on the page


def evaluation_page(
    task: Task,
    examples: Sequence,
    predictions: Sequence,
    *,
    scores: Mapping[str, float],
    path: str | os.PathLike,
) -> None:
    """Writes the predictions and scores of a task as an HTML page.

    Args:
        task: The task, with its labels.
        examples: All examples, with their labels.
        predictions: A prediction for each example.
        scores: The scores by name. Names with a space, such as "person f1", are omitted, because
            the table of types contains them.
        path: The file to write.
    """
    findings = FINDINGS[type(examples[0])](task, examples, predictions)
    errors = sorted(findings.errors, key=lambda error: -error[0])[:MAX_ERRORS]
    counts = f"{len(findings.errors):,} of {len(examples):,} predictions are wrong"
    listed = f", {len(errors)} of them are listed" if len(errors) < len(findings.errors) else ""
    rows = [cells for _, cells in errors]
    columns = range(len(findings.columns))
    used = [i for i in columns if not rows or any(row[i] is not None for row in rows)]
    table = Table([findings.columns[i] for i in used], [[row[i] for i in used] for row in rows])
    notes = [f"{counts}{listed}: {findings.order}."]
    report = Report(
        title=f"{task.name}: {counted(len(examples), 'example')}",
        tiles=_tiles({name: value for name, value in scores.items() if " " not in name}),
        sections=[*findings.sections, Section(heading="Errors", notes=notes, table=table)],
    )
    write_text(path, report.html())


def _tiles(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Formats the scores.

    Scores have four decimals if all are at most 1, and two decimals otherwise. Counts have none.
    """
    num_decimals = 4 if all(abs(value) <= 1 for value in scores.values()) else 2
    texts = (f"{v:,}" if isinstance(v, int) else f"{v:,.{num_decimals}f}" for v in scores.values())
    return [(name.replace("_", " "), text) for name, text in zip(scores, texts, strict=True)]
