"""Compares gold and predicted entities of tagged sentences."""

from collections.abc import Sequence

from bert_keras.reports.findings import Errors, Findings, confusion, ratios, small
from bert_keras.reports.page import Cell, Span
from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.ner.scoring import Entity, counted, entities
from bert_keras.tasks.task import Task

NONE = "none"


def entity_findings(
    task: Task, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]
) -> Findings:
    """Returns the findings of an entity task.

    These are precision, recall and F1 of each entity type, a confusion matrix of types, and the
    sentences with wrong entities.
    """
    sets: list[tuple[set[Entity], set[Entity]]] = []
    pairs: list[tuple[str, str]] = []
    errors: Errors = []
    for sentence, tags in zip(examples, predictions, strict=True):
        gold, predicted = set(entities(sentence.tags or ())), set(entities(tags))
        sets.append((gold, predicted))
        gold_kinds, predicted_kinds = (
            {(begin, end): kind for begin, end, kind in those} for those in (gold, predicted)
        )
        pairs += [
            (gold_kinds.get(span, NONE), predicted_kinds.get(span, NONE))
            for span in gold_kinds | predicted_kinds
        ]
        if gold != predicted:
            cells = [
                small(f"line {sentence.line}"),
                _marked(sentence, gold, right=predicted),
                _marked(sentence, predicted, right=gold),
            ]
            errors.append((len(gold ^ predicted), cells))
    given, found, correct = counted(sets)
    kinds = sorted({*given, *found})
    return Findings(
        sections=[
            ratios("Types", given, found, correct),
            confusion("Entities by their words", pairs, [*kinds, NONE]),
        ],
        columns=["sentence", "gold", "predicted"],
        errors=errors,
        order="sentences with the most wrong entities first; what is in both is green",
    )


def _marked(sentence: Sentence, found: set[Entity], *, right: set[Entity]) -> Cell:
    """Returns a sentence with its entities marked as correct or wrong."""
    begins = {begin: (end, kind) for begin, end, kind in found}
    line: list[Span | str] = []
    place = 0
    while place < len(sentence.words):
        end, kind = begins.get(place, (place + 1, ""))
        text = " ".join(sentence.words[place:end])
        if kind:
            colour = "good" if (place, end, kind) in right else "bad"
            line += [Span(f"{text} ", colour, note=kind), " "]
        else:
            line.append(f"{text} ")
        place = end
    return Cell([line])
