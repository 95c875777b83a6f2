"""Finds the best answer spans from the start and end logits of a model."""

import dataclasses
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bert_keras.tasks.squad.questions import Question
from bert_keras.tasks.squad.windows import Windows, max_context
from bert_keras.tasks.task import softmax


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry of the n-best list of a question."""

    text: str  # "" for "no answer"
    probability: float  # softmax of the scores over the n-best list
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted answer of a question."""

    text: str  # "" for "no answer"
    # The score of "no answer" minus that of the best answer; None if every question has an answer.
    null_odds: float | None = None
    # The n-best list, best first; () for a prediction that was read from a file.
    candidates: tuple[Candidate, ...] = ()


class Span(NamedTuple):
    """A span of tokens of a context and its logits."""

    first: int  # index of the first token in `Windows.pieces`
    last: int  # index of the last token
    start_logit: float
    end_logit: float


def predicted_answers(
    questions: Sequence[Question],
    windows: Windows,
    outputs: Sequence[dict[str, np.ndarray]],
    *,
    num_best: int,
    max_answer_length: int,
    null_threshold: float | None = None,
) -> list[Prediction]:
    """Returns the best answer of each question (BERT paper, sections 4.2 and 4.3).

    The score of a span from token i to token j >= i is S.T_i + E.T_j. The score of "no answer",
    S.C + E.C, is the minimum over the windows of the question.

    Args:
        questions: The questions.
        windows: Their windows.
        outputs: The logits "start" and "end", float32 [T], of each window.
        num_best: Maximum number of candidates of a question, each with a different text.
        max_answer_length: Maximum number of tokens of an answer.
        null_threshold: A question whose null odds exceed it gets the prediction "". None if every
            question has an answer.
    """
    predictions = []
    for number, question in enumerate(questions):
        candidates: dict[str, Candidate] = {}  # by text; the best span of a text counts
        for span in spans(windows, number, outputs, max_answer_length):
            characters = windows.offsets[[span.first, span.last]]
            text = cut(question.context, characters[0, 0], characters[1, 1])
            candidates.setdefault(text, Candidate(text, 0.0, span.start_logit, span.end_logit))
            if len(candidates) == num_best:
                break
        found = list(candidates.values())
        best = found[0]
        text, null_odds = best.text, None
        if null_threshold is not None:
            nulls = [
                Candidate("", 0.0, float(outputs[row]["start"][0]), float(outputs[row]["end"][0]))
                for row in windows.of_question(number)
            ]
            null = min(nulls, key=lambda candidate: candidate.score)
            null_odds = null.score - best.score
            text = "" if null_odds > null_threshold else text
            found = sorted([*found, null], key=lambda each: each.score, reverse=True)
            if found[-1] is not null:  # "no answer" stays in the list even if it is the worst
                found = found[:num_best]
        probabilities = softmax(np.array([candidate.score for candidate in found]))
        found = [
            dataclasses.replace(candidate, probability=probability)
            for candidate, probability in zip(found, probabilities.tolist(), strict=True)
        ]
        predictions.append(Prediction(text, null_odds, tuple(found)))
    return predictions


def spans(
    windows: Windows, number: int, outputs: Sequence[dict[str, np.ndarray]], max_answer_length: int
):
    """Yields the valid spans of a question, best first.

    A valid span has at most `max_answer_length` tokens and begins in the window that has the
    maximum context of its first token (see `max_context`).

    Args:
        windows: The windows of all questions.
        number: The index of the question.
        outputs: The logits of each window.
        max_answer_length: Maximum number of tokens of a span.
    """
    rows = windows.of_question(number)
    passage_starts = windows.starts_N2[rows.start : rows.stop, 1]
    question_lengths, passage_lengths = windows.lengths_N2[rows.start : rows.stop].T
    is_max = max_context(passage_starts - passage_starts[0], passage_lengths)
    before_passage = question_lengths + windows.vocabulary.num_specials(2) - 1
    scores, starts, ends = [], [], []
    for index, row in enumerate(rows):
        passage = slice(before_passage[index], before_passage[index] + passage_lengths[index])
        start = outputs[row]["start"][passage].astype(np.float64)
        end = outputs[row]["end"][passage].astype(np.float64)
        start[~is_max[index]] = -np.inf
        beyond = np.full(max_answer_length - 1, -np.inf)
        ends_TL = np.lib.stride_tricks.sliding_window_view(
            np.concatenate([end, beyond]), max_answer_length
        )
        scores.append((start[:, None] + ends_TL).ravel())
        starts.append(start)
        ends.append(end)
    scores = np.concatenate(scores)
    starts, ends = np.concatenate(starts), np.concatenate(ends)
    firsts = np.concatenate(
        [s + np.arange(n) for s, n in zip(passage_starts, passage_lengths, strict=True)]
    )
    for place in np.argsort(-scores, kind="stable"):
        if scores[place] == -np.inf:
            return
        at, more = divmod(int(place), max_answer_length)
        yield Span(firsts[at], firsts[at] + more, float(starts[at]), float(ends[at + more]))


def cut(context: str, start: int, end: int) -> str:
    """Returns the characters [start, end) of a context, and the combining marks after them.

    An uncased tokenizer drops these marks, so its offsets do not include them at the end.
    """
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return context[start:end]
