"""Labelled texts and what was predicted for them in; where the two differ, out."""

from collections import Counter
from collections.abc import Sequence

from bert_keras.reports.charts import scatter
from bert_keras.reports.findings import Errors, Findings, confusion, ratios, surest_first
from bert_keras.reports.page import Html, element, figure, markup
from bert_keras.tasks.classification import ClassificationTask, TextExample
from bert_keras.tasks.label_kinds import LabelPrediction

MOST_LABELS = 30  # of a confusion matrix that one can still read


def text_findings(
    task: ClassificationTask,
    examples: Sequence[TextExample],
    predictions: Sequence[LabelPrediction],
) -> Findings:
    return {"one": _classes, "many": _sets, "number": _numbers}[task.kind](
        task, examples, predictions
    )


def _classes(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    given, found = (Counter(labels) for labels in zip(*pairs, strict=True))
    correct = Counter(gold for gold, predicted in pairs if gold == predicted)
    sections = [("Labels", ratios(given, found, correct))]
    if len(task.labels) <= MOST_LABELS:
        sections.insert(0, ("Confusion", confusion(pairs, task.labels)))
    errors: Errors = []
    for example, (predicted, probabilities) in zip(examples, predictions, strict=True):
        if example.label != predicted:
            sure = max(map(float, probabilities), default=None)
            errors.append((sure or 0.0, [*_shown(example), example.label, predicted, sure]))
    return Findings(
        sections=sections,
        columns=[*_columns(task), "gold", "predicted", "probability"],
        errors=errors,
        order=surest_first(errors),
    )


def _sets(task, examples, predictions) -> Findings:
    pairs = [(set(e.label), set(p.label)) for e, p in zip(examples, predictions, strict=True)]
    given, found = (
        Counter(each for several in s for each in several) for s in zip(*pairs, strict=True)
    )
    correct = Counter(label for gold, predicted in pairs for label in gold & predicted)
    errors: Errors = []
    for example, (gold, predicted) in zip(examples, pairs, strict=True):
        if gold != predicted:
            parts = [
                ", ".join(sorted(labels))
                for labels in (gold & predicted, gold - predicted, predicted - gold)
            ]
            errors.append((len(gold ^ predicted), [*_shown(example), *parts]))
    return Findings(
        sections=[("Labels", ratios(given, found, correct))],
        columns=[*_columns(task), "right", "missed", "too much"],
        errors=errors,
        order="those with the most wrong labels first",
    )


def _numbers(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    drawing = scatter("predicted", pairs, x_axis=f"gold {task.labels[0]}")
    return Findings(
        sections=[("Gold and predicted", element("div", drawing, class_="charts"))],
        columns=[*_columns(task), "gold", "predicted", "difference"],
        errors=[
            (
                abs(predicted - gold),
                [*_shown(example), *map(figure, (gold, predicted, predicted - gold))],
            )
            for example, (gold, predicted) in zip(examples, pairs, strict=True)
            if predicted != gold
        ],
        order="the greatest differences first",
    )


def _columns(task: ClassificationTask) -> list[str]:
    return ["example", *task.text_columns]


def _shown(example: TextExample) -> list[object]:
    """Its line, and its texts."""
    return [_place(example.place), *example.texts]


def _place(place: str) -> Html:
    return markup(element("small", place.rpartition(", ")[2]))
