"""Compares gold and predicted entities of tagged sentences."""

from collections.abc import Sequence
from operator import itemgetter

from bert_keras.downstream.ner.tags import Entity, Sentence, entities
from bert_keras.downstream.ner.task import NerTask
from bert_keras.reports.findings import Errors, Findings, confusion, label_table, small
from bert_keras.reports.page import Cell, MarkedText

NONE = "none"


def entity_findings(
    task: NerTask, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]
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
            {(start, end): kind for start, end, kind in items} for items in (gold, predicted)
        )
        pairs += [
            (gold_kinds.get(span, NONE), predicted_kinds.get(span, NONE))
            for span in gold_kinds | predicted_kinds
        ]
        if gold != predicted:
            cells = [
                small(f"line {sentence.line}"),
                _marked(sentence, gold, correct=predicted, separator=task.word_separator),
                _marked(sentence, predicted, correct=gold, separator=task.word_separator),
            ]
            errors.append((len(gold ^ predicted), cells))
    kinds = sorted({kind for pair in pairs for kind in pair} - {NONE})
    return Findings(
        sections=[
            label_table("Types", sets, label=itemgetter(2)),
            confusion("Types of entities with the same words", pairs, [*kinds, NONE]),
        ],
        columns=["sentence", "gold", "predicted"],
        errors=errors,
        order="sentences with the most wrong entities first; correct entities are green",
    )


def _marked(
    sentence: Sentence, shown: set[Entity], *, correct: set[Entity], separator: str
) -> Cell:
    """Returns a sentence with its entities marked as correct or wrong."""
    starts = {start: (end, kind) for start, end, kind in shown}
    line: list[MarkedText | str] = []
    position = 0
    while position < len(sentence.words):
        end, kind = starts.get(position, (position + 1, ""))
        text = separator.join(sentence.words[position:end])
        if kind:
            mark = "good" if (position, end, kind) in correct else "bad"
            line += [MarkedText(f"{text} ", mark, note=kind), separator]
        else:
            line.append(f"{text}{separator}")
        position = end
    return Cell([line])
