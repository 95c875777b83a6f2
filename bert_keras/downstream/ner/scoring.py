"""Scores predicted tags as the CoNLL scorer, conlleval.pl, does."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.downstream.ner.files import OUTSIDE

Entity = tuple[int, int, str]  # index of the first word, index after the last word, type


def entity_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns the scores of conlleval.pl (2004-01-26), in percent.

    A predicted entity is correct if its first word, its last word and its type are correct.

    Args:
        gold: The true tags of each sentence.
        predicted: The predicted tags of each sentence.

    Returns:
        `f1`, `precision` and `recall` of entities, `accuracy` of single tags, and the first three
        for each type, named as `person f1`.
    """
    num_words = num_equal = 0
    pairs = []
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        num_equal += sum(tag == other for tag, other in zip(gold_tags, predicted_tags, strict=True))
        num_words += len(gold_tags)
        pairs.append((set(entities(gold_tags)), set(entities(predicted_tags))))
    num_true, num_predicted, num_correct = entity_counts(pairs)
    scores = _ratios(num_true.total(), num_predicted.total(), num_correct.total())
    scores["accuracy"] = 100 * num_equal / num_words
    for kind in sorted({*num_true, *num_predicted}):
        ratios = _ratios(num_true[kind], num_predicted[kind], num_correct[kind])
        scores.update({f"{kind} {name}": value for name, value in ratios.items()})
    return scores


def entity_counts(
    pairs: Iterable[tuple[set[Entity], set[Entity]]],
) -> tuple[Counter, Counter, Counter]:
    """Counts the entities of each type.

    Args:
        pairs: The (true, predicted) entities of each sentence.

    Returns:
        The number of true, predicted, and correctly predicted entities of each type.
    """
    counters = Counter(), Counter(), Counter()
    for gold, predicted in pairs:
        for counter, spans in zip(counters, (gold, predicted, gold & predicted), strict=True):
            counter.update(kind for _, _, kind in spans)
    return counters


def entities(tags: Sequence[str]) -> Iterator[Entity]:
    """Yields the entities of a sentence.

    Tags that break the scheme are read as conlleval.pl reads them: an I- tag after O, or after
    another type, starts an entity like a B- tag.
    """
    start, kind = 0, ""  # "" outside of an entity
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, tag_kind = tag.partition("-")
        if prefix == "I" and tag_kind == kind:
            continue
        if kind:
            yield start, index, kind
        start, kind = index, tag_kind


def _ratios(num_true: int, num_predicted: int, num_correct: int) -> dict[str, float]:
    precision = 100 * num_correct / num_predicted if num_predicted else 0.0
    recall = 100 * num_correct / num_true if num_true else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}
