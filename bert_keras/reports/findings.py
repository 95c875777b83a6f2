"""Builds the tables that the evaluation pages of several tasks share."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bert_keras.reports.page import Cell, MarkedText, Section, Table, Value

Errors = list[tuple[float, Sequence[Value]]]  # (sort weight, values of a row)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The sections and errors that an evaluation page shows for a task."""

    sections: Sequence[Section]
    columns: Sequence[str]  # of the table of errors
    errors: Errors  # one value for each of `columns`
    order: str  # describes which errors come first


FindErrors = Callable[..., Findings]  # arguments: task, examples, predictions


def confusion(heading: str, pairs: Sequence[tuple[str, str]], labels: Sequence[str]) -> Section:
    """Returns a confusion matrix with gold labels as rows and predicted labels as columns.

    Args:
        heading: The heading of the section.
        pairs: (gold, predicted) of each example.
        labels: The labels in the order of rows and columns.

    Returns:
        A section whose cells contain counts and their fraction of the row.
    """
    counts, gold = Counter(pairs), Counter(label for label, _ in pairs)
    rows = []
    for label in labels:
        row: list[Value] = [Cell([[label]], kind="header")]
        for other in labels:
            count = counts[label, other]
            fraction = count / gold[label] if count else 0.0
            text = MarkedText(f"{count:,} ", note=f"{fraction:.1%}" if count else "")
            kind = "number right" if label == other else "number"
            row.append(Cell([[text]], kind=kind, heat=0.45 * fraction))
        rows.append([*row, gold[label]])
    return Section(heading=heading, table=Table(["gold ↓ predicted →", *labels, "all"], rows))


def label_table(
    heading: str, pairs: Sequence[tuple[set, set]], *, label: Callable[[Any], str] = str
) -> Section:
    """Returns precision, recall and F1 of each label.

    Args:
        heading: The heading of the section.
        pairs: (gold items, predicted items) of each example.
        label: Returns the label of an item.
    """
    gold, predicted, correct = Counter(), Counter(), Counter()
    for gold_items, predicted_items in pairs:
        gold.update(map(label, gold_items))
        predicted.update(map(label, predicted_items))
        correct.update(map(label, gold_items & predicted_items))
    rows = []
    for name in sorted({*gold, *predicted}):
        counts = predicted[name], gold[name]
        rates = [correct[name] / count if count else None for count in counts]
        rows.append([name, *rates, 2 * correct[name] / sum(counts), gold[name], predicted[name]])
    header = ["label", "precision", "recall", "F1", "gold", "predicted"]
    return Section(heading=heading, table=Table(header, rows))


def error_order(errors: Errors) -> str:
    """Describes the order of errors whose last cell is a probability.

    If no prediction has a probability, the order is that of the examples.
    """
    if any(cells[-1] is not None for _, cells in errors):
        return "the most probable predictions first"
    return "in the order of the examples"


def small(note: str) -> Cell:
    """Returns a cell in small print."""
    return Cell([[MarkedText("", note=note)]])
