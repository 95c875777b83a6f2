"""Entities of tags and their scores, which equal those of conlleval.pl."""

import pytest

from bert_keras.downstream.ner.scoring import entities, entity_scores


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        ("I-PER I-PER B-PER", [(0, 2, "PER"), (2, 3, "PER")]),  # IOB1
        ("O I-PER I-LOC I-LOC", [(1, 2, "PER"), (2, 4, "LOC")]),  # broken BIO2
        ("B-PER I-LOC B-LOC I-PER", [(0, 1, "PER"), (1, 2, "LOC"), (2, 3, "LOC"), (3, 4, "PER")]),
        ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
        ("O O", []),
    ],
)
def test_entities_are_read_from_tags(tags, expected):
    assert list(entities(tags.split())) == expected


# The output of conlleval.pl (2004-01-26) for sentences with true and predicted tags, separated by
# "|": accuracy, precision, recall and F1, then the last three for each type.
TABLE = [
    (
        "O B-PER I-creative-work I-LOC I-PER",
        "I-creative-work B-PER I-creative-work I-LOC B-PER",
        (60.0, 80.0, 100.0, 88.89),
        {
            "LOC": (100.0, 100.0, 100.0),
            "PER": (100.0, 100.0, 100.0),
            "creative-work": (50.0, 100.0, 66.67),
        },
    ),
    (
        "B-PER O B-PER O I-PER | O",
        "B-PER O B-PER B-PER I-PER | O",
        (83.33, 66.67, 66.67, 66.67),
        {"PER": (66.67, 66.67, 66.67)},
    ),
    (
        "B-LOC I-creative-work I-creative-work | O",
        "I-creative-work I-creative-work I-creative-work | B-creative-work",
        (50.0, 0.0, 0.0, 0.0),
        {"LOC": (0.0, 0.0, 0.0), "creative-work": (0.0, 0.0, 0.0)},
    ),
    (
        "I-PER B-LOC O | B-LOC O O I-creative-work",
        "O O O | O O O O",
        (42.86, 0.0, 0.0, 0.0),
        {"LOC": (0.0, 0.0, 0.0), "PER": (0.0, 0.0, 0.0), "creative-work": (0.0, 0.0, 0.0)},
    ),
    (
        "O O O O O | O O",
        "B-creative-work I-PER B-creative-work I-PER B-PER | O B-PER",
        (14.29, 0.0, 0.0, 0.0),
        {"PER": (0.0, 0.0, 0.0), "creative-work": (0.0, 0.0, 0.0)},
    ),
]


@pytest.mark.parametrize(("gold", "predicted", "overall", "of_types"), TABLE)
def test_scores_equal_those_of_conlleval(gold, predicted, overall, of_types):
    scores = entity_scores(*([s.split() for s in tags.split("|")] for tags in (gold, predicted)))
    names = ("accuracy", "precision", "recall", "f1")
    assert tuple(round(scores.pop(name), 2) for name in names) == overall
    assert {name: round(value, 2) for name, value in scores.items()} == {
        f"{kind} {name}": value
        for kind, values in of_types.items()
        for name, value in zip(names[1:], values, strict=True)
    }
