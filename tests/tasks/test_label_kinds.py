"""Which labels are refused, and what is said of them."""

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.label_kinds import LABEL_KINDS

ONE, MANY, NUMBER = (LABEL_KINDS[name] for name in ("one", "many", "number"))


def test_white_space_around_labels_is_not_theirs():
    read = [kind.read(" 1.0 ", place="f, line 2") for kind in (ONE, MANY, NUMBER)]
    assert read == ["1.0", ("1.0",), 1.0]


@pytest.mark.parametrize("kind", [ONE, MANY])
def test_labels_that_cannot_be_written_are_told_with_their_line(kind):
    with pytest.raises(InputError, match=r"f, line 2 has the label 'x\\ty', which holds a tab"):
        kind.read("x\ty", place="f, line 2")


@pytest.mark.parametrize(("kind", "label"), [(ONE, "new"), (MANY, ("l00", "new"))])
def test_of_many_known_labels_some_are_named(kind, label):
    labels = [f"l{number:02}" for number in range(30)]
    said = r"has the label 'new'; known: l00, .*, l19 and 10 more; add rows of it to the training"
    with pytest.raises(InputError, match=said):
        kind.check(label, labels, place="f, line 2")
    with pytest.raises(InputError, match=r"known: l00, l01; add rows"):
        kind.check(label, labels[:2], place="f, line 2")


def test_one_label_is_nothing_to_learn():
    with pytest.raises(InputError, match=r"f.tsv has 1 different labels in the column 'tone'"):
        ONE.classes(["x", "x"], file="f.tsv", column="tone")
