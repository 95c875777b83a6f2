"""Builds the tables that the evaluation pages of several tasks share."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bert_keras.reports.page import Cell, Section, Span, Table, Value

Errors = list[tuple[float, Sequence[Value]]]  # (sort weight, values of a row)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The sections and errors that an evaluation page shows for a task."""

    sections: Sequence[Section]
    columns: Sequence[str]  # of the table of errors
    errors: Errors  # one value for each of `columns`
    order: str  # describes which errors come first


Find = Callable[..., Findings]  # arguments: task, examples, predictions


def confusion(heading: str, pairs: Sequence[tuple[str, str]], labels: Sequence[str]) -> Section:
    """Returns a confusion matrix with gold labels as rows and predicted labels as columns.

    Args:
        heading: The heading of the section.
        pairs: (gold, predicted) of each example.
        labels: The labels in the order of rows and columns.

    Returns:
        A section whose cells contain counts and their share of the row.
    """
    counts, gold = Counter(pairs), Counter(label for label, _ in pairs)
    rows = []
    for label in labels:
        row: list[Value] = [Cell([[label]], kind="header")]
        for other in labels:
            count = counts[label, other]
            share = count / gold[label] if count else 0.0
            text = Span(f"{count:,} ", note=f"{share:.1%}" if count else "")
            kind = "number right" if label == other else "number"
            row.append(Cell([[text]], kind=kind, heat=0.45 * share))
        rows.append([*row, gold[label]])
    return Section(heading=heading, table=Table(["gold ↓ predicted →", *labels, "all"], rows))


def ratios(
    heading: str, given: Iterable[str], found: Iterable[str], correct: Iterable[str]
) -> Section:
    """Returns precision, recall and F1 of each label.

    Args:
        heading: The heading of the section.
        given: The gold labels, or their counts.
        found: The predicted labels, or their counts.
        correct: The correctly predicted labels, or their counts.
    """
    rows = []
    given, found, correct = Counter(given), Counter(found), Counter(correct)
    for label in sorted({*given, *found}):
        counts = found[label], given[label]
        shares = [correct[label] / count if count else None for count in counts]
        rows.append([label, *shares, 2 * correct[label] / sum(counts), given[label], found[label]])
    header = ["label", "precision", "recall", "F1", "gold", "predicted"]
    return Section(heading=heading, table=Table(header, rows))


def surest_first(errors: Errors) -> str:
    """Describes the order of errors whose last cell is a probability.

    If no prediction has a probability, the order is that of the examples.
    """
    if any(cells[-1] is not None for _, cells in errors):
        return "those that the model was surest of first"
    return "in the order of the examples"


def small(note: str) -> Cell:
    """Returns a cell in small print."""
    return Cell([[Span("", note=note)]])
