"""Compares gold and predicted labels, numbers and choices of examples."""

from collections.abc import Sequence
from itertools import chain

from bert_keras.reports.charts import scatter, svg
from bert_keras.reports.findings import (
    Errors,
    Findings,
    confusion,
    ratios,
    small,
    surest_first,
)
from bert_keras.reports.page import Cell, Section, Span, Value, decimals
from bert_keras.tasks.classification import ClassificationTask, TextExample
from bert_keras.tasks.label_kinds import LabelPrediction
from bert_keras.tasks.swag import NUM_ENDINGS, ChosenEnding, Situation, SwagTask

MOST_LABELS = 30  # a larger confusion matrix is unreadable


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
    given, found = zip(*pairs, strict=True)
    correct = [gold for gold, predicted in pairs if gold == predicted]
    sections = [ratios("Labels", given, found, correct)]
    if len(task.labels) <= MOST_LABELS:
        sections.insert(0, confusion("Confusion", pairs, task.labels))
    errors: Errors = []
    for example, (predicted, probabilities) in zip(examples, predictions, strict=True):
        if example.label != predicted:
            sure = max(map(float, probabilities), default=None)
            errors.append((sure or 0.0, [*_shown(example), example.label, predicted, sure]))
    return Findings(
        sections=sections,
        columns=["example", *task.text_columns, "gold", "predicted", "probability"],
        errors=errors,
        order=surest_first(errors),
    )


def _sets(task, examples, predictions) -> Findings:
    pairs = [(set(e.label), set(p.label)) for e, p in zip(examples, predictions, strict=True)]
    given, found = (chain.from_iterable(sets) for sets in zip(*pairs, strict=True))
    correct = chain.from_iterable(gold & predicted for gold, predicted in pairs)
    errors: Errors = []
    for example, (gold, predicted) in zip(examples, pairs, strict=True):
        if gold != predicted:
            parts = [
                ", ".join(sorted(labels))
                for labels in (gold & predicted, gold - predicted, predicted - gold)
            ]
            errors.append((len(gold ^ predicted), [*_shown(example), *parts]))
    return Findings(
        sections=[ratios("Labels", given, found, correct)],
        columns=["example", *task.text_columns, "right", "missed", "too much"],
        errors=errors,
        order="those with the most wrong labels first",
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
        order="the greatest differences first",
    )


def _shown(example: TextExample) -> list[Value]:
    """Returns the line number of an example and its texts."""
    return [small(example.place.rpartition(", ")[2]), *example.texts]


def choice_findings(
    task: SwagTask, examples: Sequence[Situation], predictions: Sequence[ChosenEnding]
) -> Findings:
    """Returns a confusion matrix of the ending numbers, and the situations with a wrong choice."""
    pairs = [(str(e.label), str(p.ending)) for e, p in zip(examples, predictions, strict=True)]
    errors: Errors = []
    for example, chosen in zip(examples, predictions, strict=True):
        if example.label != chosen.ending:
            sure = chosen.probabilities[chosen.ending] if chosen.probabilities else None
            text = f"{example.context} {example.start}".strip()
            errors.append((sure or 0.0, [text, _endings(example, chosen), sure]))
    return Findings(
        sections=[confusion("Place of the ending", pairs, [str(n) for n in range(NUM_ENDINGS)])],
        columns=["situation", "endings (right one green, chosen one red)", "probability"],
        errors=errors,
        order=surest_first(errors),
    )


def _endings(example: Situation, chosen: ChosenEnding) -> Cell:
    kinds = {example.label: "good", chosen.ending: "bad"}
    shares = [f" {share:.2f}" for share in chosen.probabilities] or [""] * NUM_ENDINGS
    return Cell(
        [
            [Span(ending, kinds.get(number, "")), Span("", note=share)]
            for number, (ending, share) in enumerate(zip(example.endings, shares, strict=True))
        ]
    )
