"""Labels of each kind, and scores of edge cases; the tests of each task check its scores."""

from functools import partial

import pytest

from bert_keras.downstream.classification import SCORES
from bert_keras.errors import InputError
from bert_keras.kinds.classifier import REGRESSION as NUMBER
from bert_keras.kinds.classifier import SINGLE_LABEL as ONE
from tests.factories import random_metadata


@pytest.mark.parametrize("text", ["nan", "three", "9" * 5_000, ""])
def test_numbers_are_finite(text):
    with pytest.raises(InputError):
        NUMBER.read(text, location="f, line 2")


@pytest.mark.parametrize("text", ["", "a\tb", "a\nb"])
def test_names_of_classes_fit_a_table(text):
    with pytest.raises(InputError):
        ONE.read(text, location="f, line 2")
    with pytest.raises(InputError):
        random_metadata("BertClassifier", labels=("neg", text))


def test_classes_are_sorted_as_numbers_where_all_are_numbers():
    classes = partial(ONE.choose_classes, column="tone", file="a.csv")
    assert classes(["10", "9", "-1.5", "10"]) == ("-1.5", "9", "10")
    assert classes(["10", "9", "b"]) == ("10", "9", "b")


def test_equal_predictions_have_a_correlation_of_zero():
    for name in ("pearson", "spearman", "pearson_and_spearman"):
        assert SCORES[name]([1.0, 2.0, 3.0], [2.5, 2.5, 2.5]) == 0.0
        assert SCORES[name]([1.0, 1.0], [2.0, 2.5]) == 0.0
    assert SCORES["matthews"](["0", "1"], ["1", "1"]) == 0.0
    assert SCORES["f1"](["0", "1"], ["0", "0"]) == 0.0


def test_several_labels_are_scored_as_sets():
    gold, predicted = [("a",), ("a",)], [("a",), ("a", "b")]
    assert SCORES["macro_f1_of_labels"](gold, predicted) == 0.5
    assert SCORES["micro_f1_of_labels"](gold, predicted) == 0.8
    assert SCORES["macro_f1_of_labels"]([()], [()]) == 1.0
    assert SCORES["subset_accuracy"]([("a", "b"), ()], [("b", "a"), ("a",)]) == 0.5
    gold, predicted = [("a",), (), (), ()], [("a",), ("a",), (), ()]
    for name in ("micro_f1_of_labels", "macro_f1_of_labels"):  # of the class a alone
        assert SCORES[name](gold, predicted) == pytest.approx(2 / 3)
