"""Writes the page of an evaluation, and makes the tables of labels that several pages have."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from bert_keras.errors import counted
from bert_keras.files import StrPath, write_text
from bert_keras.reports.page import Report, Section, Table, Value, mark

MAX_ERRORS = 200  # maximum number of errors on the page
MAX_LABELS = 30  # a larger confusion matrix is unreadable
FEW_EXAMPLES = 20  # with fewer examples, the page warns that all scores depend on chance


class Findings(NamedTuple):
    """The tables and errors of an evaluation."""

    sections: list[Section]
    columns: Sequence[str]  # header of the table of errors
    errors: Sequence[tuple[float, Sequence[Value]]]  # (severity, a value for each column)
    order: str  # states which errors come first


def accuracy_error(scores: Mapping[str, float], *, num_examples: int) -> float | None:
    """Returns the standard error of an accuracy, or None for 200 or more examples.

    The accuracy beside an F1 score is left out, because that of a tagger counts words.
    """
    if "accuracy" not in scores or "f1" in scores or num_examples >= 200:
        return None
    rate = (scores["accuracy"] * num_examples + 1) / (num_examples + 2)  # never exactly 0 or 1
    return (rate * (1 - rate) / num_examples) ** 0.5


def evaluation_page(
    name: str,
    findings: Findings,
    *,
    source: Sequence[str],
    num_examples: int,
    scores: Mapping[str, float],
    path: StrPath,
) -> None:
    """Writes an HTML page of an evaluation.

    Args:
        name: The name of the task.
        findings: The tables and errors to show.
        source: Sentences that name the model and the data.
        num_examples: The number of examples that were scored.
        scores: The scores by name. Names with a space, such as "person f1", are left out.
        path: The .html file to write.
    """
    lead = [*source, f"Written on {datetime.now():%Y-%m-%d at %H:%M}."]
    if num_examples < FEW_EXAMPLES:
        lead.append(f"{counted(num_examples, 'example')} are few: all scores depend on chance.")
    errors = sorted(findings.errors, key=lambda error: -error[0])[:MAX_ERRORS]
    counts = f"{len(findings.errors):,} of {num_examples:,} predictions are wrong"
    listed = f", {len(errors)} of them are listed" if len(errors) < len(findings.errors) else ""
    table = Table(findings.columns, [cells for _, cells in errors])
    notes = [f"{counts}{listed}: {findings.order}."]
    error = accuracy_error(scores, num_examples=num_examples)
    # Scores such as "person f1" are in the table of types.
    scores = {name: value for name, value in scores.items() if " " not in name}
    num_decimals = 4 if all(abs(value) <= 1 for value in scores.values()) else 2
    tiles = []
    for score, value in scores.items():
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.{num_decimals}f}"
        if score == "accuracy" and error is not None:
            text += f" ± {error:.{num_decimals}f}"
        tiles.append((score.replace("_", " "), text))
    report = Report(
        title=f"{name}: {counted(num_examples, 'example')}",
        lead=lead,
        tiles=tiles,
        sections=[*findings.sections, Section(heading="Errors", notes=notes, table=table)],
    )
    write_text(path, report.html())


def confusion_matrix(
    heading: str, pairs: Sequence[tuple[str, str]], labels: Sequence[str]
) -> Section:
    """Returns a matrix with gold labels as rows and predicted labels as columns."""
    counts, gold = Counter(pairs), Counter(label for label, _ in pairs)
    form = Markup('<div class="heat {}" style="--share: {:.3f}">{:,} {}</div>')
    rows = []
    for label in labels:
        row: list[Value] = [Markup("<b>{}</b>").format(label)]
        for other in labels:
            count = counts[label, other]
            share = count / gold[label] if count else 0.0
            note = mark("", note=f"{share:.1%}" if count else "")
            row.append(form.format("right" * (label == other), 0.45 * share, count, note))
        rows.append([*row, gold[label]])
    return Section(heading=heading, table=Table(["gold ↓ predicted →", *labels, "all"], rows))


def label_scores(
    heading: str, pairs: Sequence[tuple[set, set]], *, label: Callable[[Any], str] = str
) -> Section:
    """Returns precision, recall and F1 of each label of pairs of gold and predicted items."""
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


def example_cells(example: Any) -> list[Value]:
    """Returns the line number of an example and its texts."""
    return [mark("", note=example.location.rpartition(", ")[2]), *example.texts]
