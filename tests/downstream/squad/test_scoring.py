"""Scores equal the output of the official scripts for the same answers."""

import pytest

from bert_keras.downstream.squad.predictions import Prediction
from bert_keras.downstream.squad.questions import Answer, Question
from bert_keras.downstream.squad.scoring import (
    best_threshold,
    normalized,
    squad1_scores,
    squad2_scores,
)


def question(*answers):
    return Question(
        id="q", question="?", context="c", answers=tuple(Answer(text, 0) for text in answers)
    )


def test_normalized_removes_punctuation_and_articles():
    assert normalized(" The  U.S. Army's\n“an” oath,  A-1 ") == "us armys “ ” oath a1"
    assert normalized("The") == ""


@pytest.mark.parametrize(
    ("golds", "predicted", "exact", "f1"),
    [
        (["Lyon"], "lyon.", 100, 100),
        (["Lyon", "the city of Lyon"], "city Lyon", 0, 80),
        (["Lyon"], "Paris", 0, 0),
        (["x x y"], "y y", 0, 40),
        (["the"], "an", 100, 0),  # both are empty without articles
        (["Lyon"], "", 0, 0),
    ],
)
def test_scores_of_squad_1(golds, predicted, exact, f1):
    scores = squad1_scores([question(*golds)], [Prediction(predicted)])
    assert scores == {"exact_match": exact, "f1": pytest.approx(f1)}


@pytest.mark.parametrize(
    ("golds", "predicted", "exact", "f1"),
    [
        ([], "", 100, 100),
        ([], "Lyon", 0, 0),
        ([], "the", 100, 100),
        (["Lyon"], "", 0, 0),
        (["the", "Lyon"], "a", 0, 0),  # gold answers that are empty without articles are ignored
        (["the"], "a", 100, 100),
        (["Lyon", "the city of Lyon"], "city Lyon", 0, 80),
    ],
)
def test_scores_of_squad_2(golds, predicted, exact, f1):
    scores = squad2_scores([question(*golds)], [Prediction(predicted)])
    kind = "HasAns" if golds else "NoAns"
    assert scores == {
        "exact": exact,
        "f1": pytest.approx(f1),
        "total": 1,
        f"{kind}_exact": exact,
        f"{kind}_f1": pytest.approx(f1),
        f"{kind}_total": 1,
    }


def test_a_question_without_a_prediction_scores_zero():
    questions = [question("a1"), question("b1")]
    scores = squad1_scores(questions, [None, Prediction("b1")])
    assert scores == {"exact_match": 50.0, "f1": 50.0}
    questions = [question("a1"), question()]
    scores = squad2_scores(questions, [Prediction("a1", -1.0), None])
    assert (scores["exact"], scores["NoAns_exact"], scores["best_exact"]) == (50.0, 0.0, 50.0)


def test_the_best_threshold_of_the_null_odds():
    questions = [question("x1"), question(), question("y1"), question(), question("z1")]
    texts, odds = ["x1", "wrong", "y1", "wrong", "z1"], [-5.0, -3.0, -1.0, 2.0, 4.0]
    predictions = [Prediction(*pair) for pair in zip(texts, odds, strict=True)]
    scores = squad2_scores(questions, predictions)
    assert scores["exact"] == 60.0
    # none: 2; up to -5: 3; up to -3: 2; up to -1: 3; up to 2: 2; up to 4: 3
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (60.0, -5.0)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (60.0, -5.0)


def test_the_threshold_is_zero_if_no_answer_is_always_best():
    predictions = [Prediction("wrong", -5.0), Prediction("wrong", -4.0)]
    assert best_threshold([0, 0], [True, False], predictions) == (50.0, 0.0)


def test_without_null_odds_there_is_no_best_threshold():
    assert "best_f1" not in squad2_scores([question("x1")], [Prediction("x1")])
