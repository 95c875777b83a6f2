"""Scores predicted tags of characters as KLUE-baseline does."""

from collections.abc import Sequence

from bert_keras.downstream.ner.files import OUTSIDE
from bert_keras.downstream.ner.scoring import entities, entity_counts

TYPES = ("PS", "LC", "OG", "DT", "TI", "QT")  # person, location, organization, date, time, quantity
LABELS = (*(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI"), OUTSIDE)


def klue_ner_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns the scores of KLUE-NER, in percent.

    The rules are those of KLUE-benchmark/KLUE-baseline (metrics/functional.py). It also counts the
    [CLS] and [SEP] of each sentence, whose tag is O; here both are always right.

    Args:
        gold: The true tags of the characters of each sentence, without spaces.
        predicted: The predicted tags.

    Returns:
        `character_macro_f1`, the mean F1 of the 13 tags, O included, where a tag that neither
        occurs nor is predicted counts as 1; `entity_macro_f1`, the mean F1 of the types of
        entities that occur or are predicted. An entity starts with B-; see `strict_tags`.
    """
    from sklearn.metrics import f1_score

    flat = [
        [tag for tags in sentences for tag in (OUTSIDE, *tags, OUTSIDE)]
        for sentences in (gold, predicted)
    ]
    of_tags = f1_score(*flat, labels=list(LABELS), average="macro", zero_division=1.0)
    sets = (
        [set(entities(strict_tags(tags))) for tags in sentences] for sentences in (gold, predicted)
    )
    num_true, num_predicted, num_correct = entity_counts(zip(*sets, strict=True))
    kinds = {*num_true, *num_predicted}
    f1s = [2 * num_correct[kind] / (num_true[kind] + num_predicted[kind]) for kind in kinds]
    return {
        "character_macro_f1": 100.0 * float(of_tags),
        "entity_macro_f1": 100.0 * sum(f1s) / len(f1s) if f1s else 0.0,
    }


def strict_tags(tags: Sequence[str]) -> list[str]:
    """Replaces each I- tag that continues no entity by O.

    Entities then are those of seqeval's mode "strict" with the scheme IOB2.
    """
    result, kind = [], ""
    for tag in tags:
        prefix, _, tag_kind = tag.partition("-")
        kind = tag_kind if prefix == "B" or tag_kind == kind else ""
        result.append(tag if kind else OUTSIDE)
    return result
