"""What the page of an evaluation shows of each kind of task: sections and errors."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bert_keras.reports.page import Cell, Section, Span, Table, Value

Errors = list[tuple[float, Sequence[Value]]]  # weight in the order, and the values of a row


@dataclass(frozen=True, kw_only=True)
class Findings:
    """`errors` have a value for each of `columns`; `order` explains which of them come first."""

    sections: Sequence[Section]
    columns: Sequence[str]
    errors: Errors
    order: str


Find = Callable[..., Findings]  # task, examples, predictions


def confusion(heading: str, pairs: Sequence[tuple[str, str]], labels: Sequence[str]) -> Section:
    """Counts of (gold, predicted): gold labels down, predicted ones across, shares of the row."""
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
    """Precision, recall and F1 of each label, from gold, predicted and correct labels or counts."""
    rows = []
    given, found, correct = Counter(given), Counter(found), Counter(correct)
    for label in sorted({*given, *found}):
        counts = found[label], given[label]
        shares = [correct[label] / count if count else None for count in counts]
        rows.append([label, *shares, 2 * correct[label] / sum(counts), given[label], found[label]])
    header = ["label", "precision", "recall", "F1", "gold", "predicted"]
    return Section(heading=heading, table=Table(header, rows))


def surest_first(errors: Errors) -> str:
    """The order of errors whose last cell is a probability, if the model told one."""
    if any(cells[-1] is not None for _, cells in errors):
        return "those that the model was surest of first"
    return "in the order of the examples"


def small(note: str) -> Cell:
    """A cell in small print."""
    return Cell([[Span("", note=note)]])
