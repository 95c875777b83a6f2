"""A task, its examples and what was predicted for them in; one HTML page to look at out."""

import os
from collections.abc import Mapping, Sequence

from bert_keras.reports.answers import answer_findings
from bert_keras.reports.choices import choice_findings
from bert_keras.reports.entities import entity_findings
from bert_keras.reports.findings import Find
from bert_keras.reports.labels import text_findings
from bert_keras.reports.page import Html, element, markup, page, table
from bert_keras.storage import write_text
from bert_keras.tasks.classification import TextExample
from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.squad.questions import Question
from bert_keras.tasks.swag import Situation
from bert_keras.tasks.task import Task

# By the examples' type: tasks that read the same are told of in the same way.
FINDINGS: dict[type, Find] = {
    TextExample: text_findings,
    Situation: choice_findings,
    Question: answer_findings,
    Sentence: entity_findings,
}
MOST_ERRORS = 200  # listed


def evaluation_page(
    task: Task,
    examples: Sequence,
    predictions: Sequence,
    *,
    scores: Mapping[str, float],
    path: str | os.PathLike,
) -> None:
    """Scores, tables of the labels or types, and the most telling errors, into `path`.

    Scores of one type, such as "person f1", are told by the table of the types alone.
    """
    found = FINDINGS[type(examples[0])](task, examples, predictions)
    whole = {name: value for name, value in scores.items() if " " not in name}
    errors = sorted(found.errors, key=lambda error: -error[0])[:MOST_ERRORS]
    counts = f"{len(found.errors):,} of {len(examples):,} differ from what was given"
    listed = f", {len(errors)} of these are listed" if len(errors) < len(found.errors) else ""
    write_text(
        path,
        page(
            f"{task.name}: {len(examples):,} examples",
            _tiles(whole),
            *(markup(element("h2", heading), content) for heading, content in found.sections),
            element("h2", "Errors"),
            element("p", f"{counts}{listed}: {found.order}.", class_="note"),
            table(*_told(found.columns, [cells for _, cells in errors])),
        ),
    )


def _tiles(scores: Mapping[str, float]) -> Html:
    """Counts as they are, all others with as many decimals as percentages where one is greater
    than 1."""
    decimals = 4 if all(abs(value) <= 1 for value in scores.values()) else 2
    tiles = []
    for name, value in scores.items():
        told = f"{value:,}" if isinstance(value, int) else f"{value:,.{decimals}f}"
        tiles.append(element("div", name.replace("_", " "), element("b", told)))
    return element("div", *tiles, class_="scores")


def _told(columns: Sequence[str], rows: Sequence[Sequence[object]]):
    """Without the columns that no row tells anything in."""
    kept = [at for at in range(len(columns)) if not rows or any(r[at] is not None for r in rows)]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]
