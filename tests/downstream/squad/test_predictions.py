"""The best answer spans of windows, from start and end logits."""

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.downstream.squad.predictions import predicted_answers
from bert_keras.downstream.squad.windows import windows_over
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of

LIMITS = {"num_best": 20, "max_answer_length": 30}


@pytest.fixture
def model_outputs(tokenizer):
    """Makes the windows of questions, and outputs that are `low` except at some positions.

    `starts` and `ends` are {(row, character of the context): logit}; "C" stands for [CLS].
    """

    def make(questions, starts, ends, *, low=-9.0, padding=3, **limits):
        sizes = {"max_length": 384, "stride": 128, "max_question_length": 64, **limits}
        windows = windows_over(questions, tokenizer, **sizes)
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
        ("a lyon b", 2, 2, "lyon"),
        ("a (Lyon).", 3, 3, "Lyon"),
        ("a  Lyon \t\n won", 3, 11, "Lyon \t\n won"),  # with its white space
        ("x 北京 y", 2, 3, "北京"),
        ("🎉 lyon 🎉 b", 2, 7, "lyon 🎉"),
        ("a Cafe\u0301 b", 2, 2, "Cafe\u0301"),
        ("un Café b", 3, 3, "Café"),
        ("a Japanese b", 2, 2, "Japan"),
    ],
)
def test_answers_are_substrings_of_the_context(ask, model_outputs, context, start, end, text):
    questions = [ask(context)]
    (prediction,) = predicted_answers(
        questions, *model_outputs(questions, {(0, start): 5}, {(0, end): 5}), **LIMITS
    )
    assert prediction.text == text
    assert prediction.null_odds is None
    best = prediction.candidates[0]
    assert (best.text, best.start_logit, best.end_logit) == (text, 5.0, 5.0)


def test_white_space_is_no_answer_and_does_not_surround_one(ask, subwords):
    """Byte-level BPE has tokens of white space, here the first of two spaces."""
    rules = rules_vocabulary(read_rules(subwords["roberta"], {}))
    questions = [ask("the  license ", question="the")]
    windows = windows_over(
        questions, tokenizer_of(rules, lowercase=False), max_length=20, stride=9,
        max_question_length=4,
    )  # fmt: skip
    is_blank = windows.offsets[:, 0] == windows.offsets[:, 1]
    assert is_blank.sum() == 2
    first = 3 + windows.lengths_N2[0, 0]  # <s>, the question, </s> and </s> are before the passage
    logits = {name: np.zeros(windows.lengths[0], np.float32) for name in ("start", "end")}
    for each, wanted, bound in zip(logits.values(), (5, 12), windows.offsets.T, strict=True):
        each[first : first + len(bound)] = np.where(is_blank, 5, bound == wanted)
    (prediction,) = predicted_answers(questions, windows, [logits], **LIMITS, null_threshold=0.0)
    texts = [each.text for each in prediction.candidates]
    assert texts.count("") == 1 and [text.strip() for text in texts] == texts
    assert prediction.text == "license" and prediction.null_odds == -2.0


def test_answers_end_after_their_start_and_have_a_maximum_length(ask, model_outputs):
    questions = [ask("a b c d e")]
    windows, outputs = model_outputs(
        questions, {(0, 4): 5, (0, 0): 1}, {(0, 2): 5, (0, 8): 2}
    )  # c is the best start, b the best end
    for max_length, text in ((30, "c d e"), (2, "a b")):
        (prediction,) = predicted_answers(
            questions, windows, outputs, num_best=20, max_answer_length=max_length
        )
        assert prediction.text == text


def test_questions_and_special_tokens_are_not_answers(ask, model_outputs):
    questions = [ask("a b", question="who won ?")]
    windows, outputs = model_outputs(questions, {(0, "C"): 50}, {(0, "C"): 50})
    outputs[0]["start"][1:5] = outputs[0]["end"][1:5] = 60
    outputs[0]["start"][windows.lengths[0] - 1] = outputs[0]["end"][windows.lengths[0] - 1] = 70
    (prediction,) = predicted_answers(questions, windows, outputs, **LIMITS)
    assert prediction.text in ("a", "b", "a b")


def test_spans_start_in_the_window_with_the_maximum_context(ask, model_outputs):
    questions = [ask("a b c d e f g h i j", question="who")]
    sizes = {"max_length": 9, "stride": 3}  # abcde, defgh, ghij
    windows, outputs = model_outputs(
        questions, {(0, 8): 9, (1, 8): 1, (2, 18): 2}, {(0, 8): 9, (1, 8): 1, (2, 18): 2}, **sizes
    )
    (prediction,) = predicted_answers(questions, windows, outputs, **LIMITS)
    assert [each.text for each in prediction.candidates[:2]] == ["j", "e"]
    assert prediction.candidates[1].score == 2.0


def test_each_candidate_has_a_different_text_and_a_probability(ask, model_outputs):
    questions = [ask("a b a")]
    windows, outputs = model_outputs(
        questions, {(0, 0): 1, (0, 4): 3, (0, 2): 2}, {(0, 0): 1, (0, 4): 3, (0, 2): 2}
    )
    limits = {"num_best": 3, "max_answer_length": 1}
    (prediction,) = predicted_answers(questions, windows, outputs, **limits)
    assert [(each.text, each.score) for each in prediction.candidates] == [("a", 6.0), ("b", 4.0)]
    probabilities = [each.probability for each in prediction.candidates]
    assert probabilities == pytest.approx([1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))])
    (prediction,) = predicted_answers(questions, windows, outputs, num_best=1, max_answer_length=1)
    assert [(each.text, each.probability) for each in prediction.candidates] == [("a", 1.0)]


def test_the_score_of_no_answer_is_the_minimum_over_windows(ask, model_outputs):
    questions = [ask("a b c d e f g h i j", question="who")]
    windows, outputs = model_outputs(
        questions,
        {(0, "C"): 4, (1, "C"): 2, (2, "C"): 7, (0, 2): 1.5},
        {(0, "C"): 4, (1, "C"): 3, (2, "C"): 7, (0, 2): 2},
        max_length=9,
        stride=3,
    )
    for threshold, text in ((1.5, "b"), (1.0, "")):
        (prediction,) = predicted_answers(
            questions, windows, outputs, **LIMITS, null_threshold=threshold
        )
        assert prediction.null_odds == (2 + 3) - (1.5 + 2)
        assert prediction.text == text
    assert [each.text for each in prediction.candidates[:2]] == ["", "b"]
    assert prediction.candidates[0].score == 5.0
    assert sum(each.probability for each in prediction.candidates) == pytest.approx(1)


def test_the_n_best_list_contains_no_answer_even_if_it_is_worst(ask, model_outputs):
    questions = [ask("a b c")]
    windows, outputs = model_outputs(questions, {(0, 0): 5}, {(0, 0): 5}, low=0.0)
    outputs[0]["start"][0] = outputs[0]["end"][0] = -20.0
    limits = {"num_best": 2, "max_answer_length": 30, "null_threshold": 0.0}
    (prediction,) = predicted_answers(questions, windows, outputs, **limits)
    assert [each.text for each in prediction.candidates] == ["a", "a b", ""]
    assert (prediction.text, prediction.null_odds) == ("a", -50.0)


def test_each_question_has_an_answer(ask, model_outputs):
    questions = [ask("a b", identity="1"), ask("a b", identity="2"), ask("c", identity="3")]
    windows, outputs = model_outputs(
        questions, {(0, 0): 5, (1, 2): 5, (2, 0): 5}, {(0, 0): 5, (1, 2): 5, (2, 0): 5}
    )
    predictions = predicted_answers(questions, windows, outputs, **LIMITS)
    assert [each.text for each in predictions] == ["a", "b", "c"]
