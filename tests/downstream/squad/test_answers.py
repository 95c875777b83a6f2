"""Answers: the best spans of windows, official scores, and the files of run_squad.py."""

import json

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer_json
from bert_keras.downstream.squad.answers import squad1_scores, squad2_scores
from bert_keras.downstream.squad.task import SQUAD_TASKS
from bert_keras.kinds.span import Candidate, Prediction, SpanSettings, predict_answers
from bert_keras.kinds.windows import Answer, Question, make_windows
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of

SQUAD2 = {"version": "2.0"}


def best(questions, windows, outputs, **settings):
    """The prediction of one question."""
    contexts = [each.context for each in questions]
    (prediction,) = predict_answers(contexts, windows, outputs, SpanSettings(**settings))
    return prediction


@pytest.fixture
def model_outputs(tokenizer):
    """Makes the windows of questions, and outputs that are `low` except at some positions.

    `starts` and `ends` are {(row, character of the context): logit}; "C" stands for [CLS].
    """

    def make(questions, starts, ends, *, low=-9.0, padding=3, **limits):
        sizes = {"max_length": 384, "stride": 128, "max_question_length": 64, **limits}
        windows = make_windows(questions, tokenizer, **sizes)
        outputs = []
        for row, length in enumerate(windows.lengths):
            logits = {name: np.full(length + padding, low, np.float32) for name in ("start", "end")}
            logits["start"][length:] = logits["end"][length:] = 99.0  # padding must be ignored
            for name, chosen in (("start", starts), ("end", ends)):
                for (window, character), logit in chosen.items():
                    if window == row:
                        logits[name][_position(windows, row, character)] = logit
            outputs.append(logits)
        return windows, outputs

    return make


def _position(windows, row, character):
    if character == "C":
        return 0
    first, before = windows.starts_N2[row, 1], 2 + windows.lengths_N2[row, 0]
    passage = windows.offsets[first : first + windows.lengths_N2[row, 1]]
    return before + int(np.flatnonzero(passage[:, 1] > character)[0])


@pytest.mark.parametrize(
    ("context", "start", "end", "text"),
    [
        ("a (Lyon).", 3, 3, "Lyon"),
        ("a  Lyon \t\n won", 3, 11, "Lyon \t\n won"),  # with its white space
        ("🎉 lyon 🎉 b", 2, 7, "lyon 🎉"),
        ("a Cafe\u0301 b", 2, 2, "Cafe\u0301"),
        ("a Japanese b", 2, 2, "Japan"),
    ],
)
def test_answers_are_substrings_of_the_context(ask, model_outputs, context, start, end, text):
    questions = [ask(context)]
    prediction = best(questions, *model_outputs(questions, {(0, start): 5}, {(0, end): 5}))
    assert prediction.text == text
    assert prediction.null_odds is None
    first = prediction.candidates[0]
    assert (first.text, first.start_logit, first.end_logit) == (text, 5.0, 5.0)


def test_white_space_is_no_answer_and_does_not_surround_one(ask, subwords):
    """Byte-level BPE has tokens of white space, here the first of two spaces."""
    rules = rules_vocabulary(read_tokenizer_json(subwords["roberta"], {}))
    questions = [ask("the  license ", question="the")]
    tokenizer, sizes = tokenizer_of(rules, lowercase=False), {"max_length": 20, "stride": 9}
    windows = make_windows(questions, tokenizer, max_question_length=4, **sizes)
    is_blank = windows.offsets[:, 0] == windows.offsets[:, 1]
    assert is_blank.sum() == 2
    first = 3 + windows.lengths_N2[0, 0]  # <s>, the question, </s> and </s> are before the passage
    logits = {name: np.zeros(windows.lengths[0], np.float32) for name in ("start", "end")}
    for each, wanted, bound in zip(logits.values(), (5, 12), windows.offsets.T, strict=True):
        each[first : first + len(bound)] = np.where(is_blank, 5, bound == wanted)
    prediction = best(questions, windows, [logits], **SQUAD2)
    texts = [each.text for each in prediction.candidates]
    assert texts.count("") == 1 and [text.strip() for text in texts] == texts
    assert prediction.text == "license" and prediction.null_odds == -2.0


def test_answers_end_after_their_start_and_have_a_maximum_length(ask, model_outputs):
    questions = [ask("a b c d e")]
    starts, ends = {(0, 4): 5, (0, 0): 1}, {(0, 2): 5, (0, 8): 2}  # best: start c, end b
    windows, outputs = model_outputs(questions, starts, ends)
    for max_length, text in ((30, "c d e"), (2, "a b")):
        prediction = best(questions, windows, outputs, max_answer_length=max_length)
        assert prediction.text == text


def test_questions_and_special_tokens_are_not_answers(ask, model_outputs):
    questions = [ask("a b", question="who won ?")]
    windows, outputs = model_outputs(questions, {(0, "C"): 50}, {(0, "C"): 50})
    outputs[0]["start"][1:5] = outputs[0]["end"][1:5] = 60
    outputs[0]["start"][windows.lengths[0] - 1] = outputs[0]["end"][windows.lengths[0] - 1] = 70
    prediction = best(questions, windows, outputs)
    assert prediction.text in ("a", "b", "a b")


def test_spans_start_in_the_window_with_the_maximum_context(ask, model_outputs):
    questions = [ask("a b c d e f g h i j", question="who")]
    logits, sizes = {(0, 8): 9, (1, 8): 1, (2, 18): 2}, {"max_length": 9, "stride": 3}
    windows, outputs = model_outputs(questions, logits, logits, **sizes)  # abcde, defgh, ghij
    prediction = best(questions, windows, outputs)
    assert [each.text for each in prediction.candidates[:2]] == ["j", "e"]
    assert prediction.candidates[1].start_logit == 1.0


def test_each_candidate_has_a_different_text_and_a_probability(ask, model_outputs):
    questions, logits = [ask("a b a")], {(0, 0): 1, (0, 4): 3, (0, 2): 2}
    windows, outputs = model_outputs(questions, logits, logits)
    limits = {"num_best": 3, "max_answer_length": 1}
    prediction = best(questions, windows, outputs, **limits)
    found = [(each.text, each.start_logit, each.end_logit) for each in prediction.candidates]
    assert found == [("a", 3.0, 3.0), ("b", 2.0, 2.0)]
    probabilities = [each.probability for each in prediction.candidates]
    assert probabilities == pytest.approx([1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))])
    prediction = best(questions, windows, outputs, num_best=1, max_answer_length=1)
    assert [(each.text, each.probability) for each in prediction.candidates] == [("a", 1.0)]


def test_the_score_of_no_answer_is_the_minimum_over_windows(ask, model_outputs):
    questions = [ask("a b c d e f g h i j", question="who")]
    starts = {(0, "C"): 4, (1, "C"): 2, (2, "C"): 7, (0, 2): 1.5}
    ends = starts | {(1, "C"): 3, (0, 2): 2}
    windows, outputs = model_outputs(questions, starts, ends, max_length=9, stride=3)
    for threshold, text in ((1.5, "b"), (1.0, "")):
        prediction = best(questions, windows, outputs, **SQUAD2, null_threshold=threshold)
        assert prediction.null_odds == (2 + 3) - (1.5 + 2)
        assert prediction.text == text
    assert [each.text for each in prediction.candidates[:2]] == ["", "b"]
    assert prediction.candidates[0].end_logit == 3.0
    assert sum(each.probability for each in prediction.candidates) == pytest.approx(1)


def test_the_n_best_list_contains_no_answer_even_if_it_is_worst(ask, model_outputs):
    questions = [ask("a b c")]
    windows, outputs = model_outputs(questions, {(0, 0): 5}, {(0, 0): 5}, low=0.0)
    outputs[0]["start"][0] = outputs[0]["end"][0] = -20.0
    limits = {"num_best": 2, **SQUAD2}
    prediction = best(questions, windows, outputs, **limits)
    assert [each.text for each in prediction.candidates] == ["a", "a b", ""]
    assert (prediction.text, prediction.null_odds) == ("a", -50.0)


def question(*answers):
    spans = tuple(Answer(text, 0) for text in answers)
    return Question(id="q", question="?", context="c", answers=spans)


@pytest.mark.parametrize(
    ("version", "golds", "predicted", "exact", "f1"),
    [
        (1, ["Lyon"], "lyon.", 100, 100),
        (1, ["Lyon"], "Paris", 0, 0),
        (1, ["x x y"], "y y", 0, 40),
        (1, ["the"], "an", 100, 0),  # both are empty without articles
        (2, [], "", 100, 100),
        (2, [], "Lyon", 0, 0),
        (2, [], "the", 100, 100),
        (2, ["the", "Lyon"], "a", 0, 0),  # gold answers of articles alone are ignored
        (2, ["the"], "a", 100, 100),
        *((version, ["Lyon"], "", 0, 0) for version in (1, 2)),
        *((version, ["Lyon", "the city of Lyon"], "city Lyon", 0, 80) for version in (1, 2)),
    ],
)
def test_scores_of_squad(version, golds, predicted, exact, f1):
    arguments = [question(*golds)], [Prediction(predicted)]
    if version == 1:
        expected = {"exact_match": exact / 100, "f1": f1 / 100}
        assert squad1_scores(*arguments) == pytest.approx(expected)
        return
    kind = "HasAns" if golds else "NoAns"
    expected = {"exact": exact / 100, "f1": f1 / 100, "total": 1}
    expected |= {f"{kind}_{name}": value for name, value in expected.items()}
    assert squad2_scores(*arguments) == pytest.approx(expected)


def test_the_best_threshold_of_the_null_odds():
    questions = [question("x1"), question(), question("y1"), question(), question("z1")]
    texts, odds = ["x1", "wrong", "y1", "wrong", "z1"], [-5.0, -3.0, -1.0, 2.0, 4.0]
    predictions = [Prediction(*pair) for pair in zip(texts, odds, strict=True)]
    scores = squad2_scores(questions, predictions)
    assert scores["exact"] == 0.6
    # none: 2; up to -5: 3; up to -3: 2; up to -1: 3; up to 2: 2; up to 4: 3
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (0.6, -5.0)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (0.6, -5.0)


@pytest.fixture
def questions(ask):
    return [ask("a b", identity="1"), ask("c d", identity="2")]


def test_files_equal_those_of_run_squad(tmp_path, questions):
    predictions = [
        Prediction("é", -1.5, (Candidate("é", 0.75, 2.0, 1.0), Candidate("", 0.25, 1.0, 0.5))),
        Prediction("", 2.5, (Candidate("", 1.0, 1.0, 2.0),)),
    ]
    SQUAD_TASKS["squad2"].write_predictions(tmp_path / "predictions.json", questions, predictions)
    written = {path.name: json.loads(path.read_text("ascii")) for path in tmp_path.iterdir()}
    first = {"text": "é", "probability": 0.75, "start_logit": 2.0, "end_logit": 1.0}
    assert written.pop("nbest_predictions.json")["1"][0] == first
    odds = {"1": -1.5, "2": 2.5}
    assert written == {"predictions.json": {"1": "é", "2": ""}, "null_odds.json": odds}
    SQUAD_TASKS["squad2"].write_predictions(tmp_path / "b.json", questions, predictions)
    assert json.loads((tmp_path / "null_odds_b.json").read_text()) == odds
    SQUAD_TASKS["squad1"].write_predictions(tmp_path / "c.json", questions, predictions)
    assert {each.name for each in tmp_path.glob("*c.json")} == {"c.json", "nbest_c.json"}
