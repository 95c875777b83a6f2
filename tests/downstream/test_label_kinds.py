"""Labels of each kind: reading and error messages."""

import pytest

from bert_keras.downstream.label_kinds import LABEL_KINDS
from bert_keras.errors import InputError

ONE, MANY, NUMBER = (LABEL_KINDS[name] for name in ("one", "many", "number"))


def test_white_space_around_labels_is_removed():
    labels = [kind.read(" 1.0 ", location="f, line 2") for kind in (ONE, MANY, NUMBER)]
    assert labels == ["1.0", ("1.0",), 1.0]


@pytest.mark.parametrize("kind", [ONE, MANY])
def test_labels_with_a_tab_are_refused(kind):
    with pytest.raises(InputError, match=r"f, line 2 has the label 'x\\ty', which contains a tab"):
        kind.read("x\ty", location="f, line 2")


@pytest.mark.parametrize(("kind", "label"), [(ONE, "new"), (MANY, ("l00", "new"))])
def test_errors_list_only_the_first_known_labels(kind, label):
    labels = [f"l{number:02}" for number in range(30)]
    message = r"has the label 'new'; known: l00, .*, l19 and 10 more; correct the label or remove"
    with pytest.raises(InputError, match=message):
        kind.check(label, labels, location="f, line 2")
    with pytest.raises(InputError, match=r"known: l00, l01; correct"):
        kind.check(label, labels[:2], location="f, line 2")


def test_a_single_class_is_refused():
    with pytest.raises(InputError, match=r"f.tsv has 1 label in the column 'tone'"):
        ONE.classes(["x", "x"], file="f.tsv", column="tone")
