"""Compares gold and predicted labels, numbers and choices of examples."""

from collections.abc import Sequence

from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.downstream.labels import LabelPrediction
from bert_keras.downstream.swag import NUM_ENDINGS, ChosenEnding, SwagExample, SwagTask
from bert_keras.reports.charts import scatter, svg
from bert_keras.reports.findings import Errors, Findings, confusion, error_order, label_table, small
from bert_keras.reports.page import Cell, MarkedText, Section, Value, decimals

MAX_LABELS = 30  # a larger confusion matrix is unreadable


def text_findings(
    task: ClassificationTask,
    examples: Sequence[TextExample],
    predictions: Sequence[LabelPrediction],
) -> Findings:
    """Returns the tables of a classification task with one label, several labels or a number per
    text.
    """
    return {"one": _classes, "many": _sets, "number": _numbers}[task.kind](
        task, examples, predictions
    )


def _classes(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    sections = [label_table("Labels", [({gold}, {predicted}) for gold, predicted in pairs])]
    # A file of predictions may have labels that are absent from the examples.
    labels = [*task.labels, *sorted({predicted for _, predicted in pairs} - {*task.labels})]
    if len(labels) <= MAX_LABELS:
        sections.insert(0, confusion("Confusion", pairs, labels))
    errors: Errors = []
    for example, (predicted, probabilities) in zip(examples, predictions, strict=True):
        if example.label != predicted:
            probability = max(map(float, probabilities), default=None)
            errors.append(
                (probability or 0.0, [*_shown(example), example.label, predicted, probability])
            )
    return Findings(
        sections=sections,
        columns=["example", *task.text_columns, "gold", "predicted", "probability"],
        errors=errors,
        order=error_order(errors),
    )


def _sets(task, examples, predictions) -> Findings:
    pairs = [(set(e.label), set(p.label)) for e, p in zip(examples, predictions, strict=True)]

    errors: Errors = []
    for example, (gold, predicted) in zip(examples, pairs, strict=True):
        if gold != predicted:
            parts = [
                ", ".join(sorted(labels))
                for labels in (gold & predicted, gold - predicted, predicted - gold)
            ]
            errors.append((len(gold ^ predicted), [*_shown(example), *parts]))
    return Findings(
        sections=[label_table("Labels", pairs)],
        columns=["example", *task.text_columns, "correct", "missing", "wrong"],
        errors=errors,
        order="examples with the most wrong labels first",
    )


def _numbers(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    chart = svg(scatter("predicted", pairs, x_axis=f"gold {task.labels[0]}"))
    return Findings(
        sections=[Section(heading="Gold and predicted", charts={"numbers": chart})],
        columns=["example", *task.text_columns, "gold", "predicted", "difference"],
        errors=[
            (abs(p - g), [*_shown(example), *map(decimals, (g, p, p - g))])
            for example, (g, p) in zip(examples, pairs, strict=True)
            if p != g
        ],
        order="the largest differences first",
    )


def _shown(example: TextExample) -> list[Value]:
    """Returns the line number of an example and its texts."""
    return [small(example.location.rpartition(", ")[2]), *example.texts]


def choice_findings(
    task: SwagTask, examples: Sequence[SwagExample], predictions: Sequence[ChosenEnding]
) -> Findings:
    """Returns a confusion matrix of the ending numbers, and the examples with a wrong choice."""
    pairs = [(str(e.label), str(p.ending)) for e, p in zip(examples, predictions, strict=True)]
    errors: Errors = []
    for example, chosen in zip(examples, predictions, strict=True):
        if example.label != chosen.ending:
            probability = chosen.probabilities[chosen.ending] if chosen.probabilities else None
            text = f"{example.context} {example.start}".strip()
            errors.append((probability or 0.0, [text, _endings(example, chosen), probability]))
    return Findings(
        sections=[confusion("Number of the ending", pairs, [str(n) for n in range(NUM_ENDINGS)])],
        columns=["context", "endings (green: correct, red: chosen)", "probability"],
        errors=errors,
        order=error_order(errors),
    )


def _endings(example: SwagExample, chosen: ChosenEnding) -> Cell:
    kinds = {example.label: "good", chosen.ending: "bad"}
    notes = [f" {each:.2f}" for each in chosen.probabilities] or [""] * NUM_ENDINGS
    return Cell(
        [
            [MarkedText(ending, kinds.get(number, "")), MarkedText("", note=note)]
            for number, (ending, note) in enumerate(zip(example.endings, notes, strict=True))
        ]
    )
