"""What the page of an evaluation shows of each kind of task: sections and errors."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
        cells = [_heat(counts[label, other], gold[label], label == other) for other in labels]
        rows.append([Cell([[label]], kind="header"), *cells, gold[label]])
    return Section(heading=heading, table=Table(["gold ↓ predicted →", *labels, "all"], rows))


def ratios(
    heading: str, given: Mapping[str, int], found: Mapping[str, int], correct: Mapping[str, int]
) -> Section:
    """Precision, recall and F1 of each label, from how often it was given, found, and both."""
    rows = []
    for label in sorted({*given, *found}):
        num_given, num_found = given.get(label, 0), found.get(label, 0)
        num_correct = correct.get(label, 0)
        f1 = 2 * num_correct / (num_given + num_found) if num_given + num_found else 0.0
        shares = [num_correct / count if count else None for count in (num_found, num_given)]
        rows.append([label, *shares, f1, num_given, num_found])
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


def _heat(count: int, of_all: int, is_right: bool) -> Cell:
    share = count / of_all if of_all else 0.0
    text = Span(f"{count:,} ", note=f"{share:.1%}" if count else "")
    return Cell([[text]], kind="number right" if is_right else "number", heat=0.45 * share)
