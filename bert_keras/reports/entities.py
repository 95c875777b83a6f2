"""Sentences with their tags and the predicted ones in; entities of both, marked, out."""

from collections.abc import Sequence

from bert_keras.reports.findings import Errors, Findings, confusion, mark, ratios
from bert_keras.reports.page import Html, element, markup
from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.ner.scoring import Entity, counted, entities
from bert_keras.tasks.task import Task

NONE = "none"


def entity_findings(
    task: Task, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]
) -> Findings:
    sets: list[tuple[set[Entity], set[Entity]]] = []
    pairs: list[tuple[str, str]] = []
    errors: Errors = []
    for sentence, tags in zip(examples, predictions, strict=True):
        gold, predicted = set(entities(sentence.tags)), set(entities(tags))
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
                element("small", f"line {sentence.line}"),
                _marked(sentence, gold, right=predicted),
                _marked(sentence, predicted, right=gold),
            ]
            errors.append((len(gold ^ predicted), cells))
    given, found, correct = counted(sets)
    kinds = sorted({*given, *found})
    return Findings(
        sections=[
            ("Types", ratios(given, found, correct)),
            ("Entities by their words", confusion(pairs, [*kinds, NONE])),
        ],
        columns=["sentence", "gold", "predicted"],
        errors=errors,
        order="sentences with the most wrong entities first; what is in both is green",
    )


def _marked(sentence: Sentence, those: set[Entity], *, right: set[Entity]) -> Html:
    begins = {begin: (end, kind) for begin, end, kind in those}
    parts: list[object] = []
    place = 0
    while place < len(sentence.words):
        end, kind = begins.get(place, (place + 1, ""))
        text = " ".join(sentence.words[place:end])
        if kind:
            is_right = (place, end, kind) in right
            text = mark(markup(text, " ", element("small", kind)), "good" if is_right else "bad")
        parts += [text, " "]
        place = end
    return markup(*parts)
