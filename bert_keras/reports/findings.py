"""What an evaluation's page tells of a kind of task: tables and drawings, and the errors."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bert_keras.reports.page import Html, element, table
from bert_keras.tasks.task import Task

Errors = list[tuple[float, Sequence[object]]]  # how telling, and the cells of a row


@dataclass(frozen=True, kw_only=True)
class Findings:
    """`sections` are headings and what stands below; `errors` have a cell for each of `columns`,
    and are listed from the most telling, which `order` explains."""

    sections: Sequence[tuple[str, Html]]
    columns: Sequence[str]
    errors: Errors
    order: str


Find = Callable[[Task, Sequence, Sequence], Findings]  # task, examples, predictions


def confusion(pairs: Sequence[tuple[str, str]], labels: Sequence[str]) -> Html:
    """Gold labels down, predicted ones across: counts and shares of the gold label's row."""
    counts, gold = Counter(pairs), Counter(label for label, _ in pairs)
    rows = []
    for label in labels:
        cells = [_heat(counts[label, other], gold[label], label == other) for other in labels]
        rows.append([element("th", label), *cells, gold[label]])
    return table(["gold ↓ predicted →", *labels, "all"], rows)


def ratios(given: Mapping[str, int], found: Mapping[str, int], correct: Mapping[str, int]) -> Html:
    """Precision, recall and F1 of each label, of how often it was given, found, and both."""
    rows = []
    for label in sorted({*given, *found}):
        num_given, num_found = given.get(label, 0), found.get(label, 0)
        num_correct = correct.get(label, 0)
        f1 = 2 * num_correct / (num_given + num_found) if num_given + num_found else 0.0
        shares = [num_correct / count if count else None for count in (num_found, num_given)]
        rows.append([label, *shares, f1, num_given, num_found])
    return table(["label", "precision", "recall", "F1", "gold", "predicted"], rows)


def surest_first(errors: Errors) -> str:
    """The order of errors whose last cell is a probability, if the model told one."""
    if any(cells[-1] is not None for _, cells in errors):
        return "those that the model was surest of first"
    return "in the order of the examples"


def mark(text: str, kind: str) -> Html:
    """`kind` is "good", "bad" or "both"."""
    return element("mark", text, class_=kind)


def _heat(count: int, of_all: int, is_right: bool) -> Html:
    share = count / of_all if of_all else 0.0
    return element(
        "td",
        f"{count:,} ",
        element("small", f"{share:.1%}" if count else ""),
        class_="number right" if is_right else "number",
        style=f"background: rgba(var(--heat), {0.45 * share:.3f})",
    )
