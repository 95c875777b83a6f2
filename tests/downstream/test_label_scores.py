"""Scores of edge cases; the tests of each task check its scores."""

import pytest

from bert_keras.downstream.label_scores import SCORES


def test_equal_predictions_have_a_correlation_of_zero():
    for name in ("pearson", "spearman", "pearson_and_spearman"):
        assert SCORES[name]([1.0, 2.0, 3.0], [2.5, 2.5, 2.5]) == 0.0
        assert SCORES[name]([1.0, 1.0], [2.0, 2.5]) == 0.0
    assert SCORES["matthews"](["0", "1"], ["1", "1"]) == 0.0
    assert SCORES["f1"](["0", "1"], ["0", "0"]) == 0.0


def test_labels_that_are_only_predicted_lower_the_mean():
    gold, predicted = [("a",), ("a",)], [("a",), ("a", "b")]
    assert SCORES["macro_f1_of_labels"](gold, predicted) == 0.5
    assert SCORES["micro_f1_of_labels"](gold, predicted) == 0.8
    assert SCORES["macro_f1_of_labels"]([()], [()]) == 1.0


def test_the_order_of_several_labels_does_not_matter():
    assert SCORES["subset_accuracy"]([("a", "b"), ()], [("b", "a"), ("a",)]) == 0.5


def test_a_single_label_is_scored_without_the_examples_that_lack_it():
    gold, predicted = [("a",), (), (), ()], [("a",), ("a",), (), ()]
    for name in ("micro_f1_of_labels", "macro_f1_of_labels"):
        assert SCORES[name](gold, predicted) == pytest.approx(2 / 3)
