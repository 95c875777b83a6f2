"""Finds the best answers in a model's scores of where each begins and ends."""

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
    """A row of the n-best list; the text of "no answer" is empty."""

    text: str
    probability: float
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


@dataclass(frozen=True, slots=True)
class Prediction:
    """`null_odds`: the score of "no answer" less that of the best answer, where there may be none;
    `candidates`, best first, where the model was asked."""

    text: str
    null_odds: float | None = None
    candidates: tuple[Candidate, ...] = ()


class Span(NamedTuple):
    """A span of pieces and its scores."""

    first: int  # pieces
    last: int
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
    """The best span of each question: S.T_i + E.T_j with i <= j, of at most `max_answer_length`
    pieces, that begins where its window shows the context best.

    With a `null_threshold` the prediction is "" where the null odds exceed it. The score of "no
    answer", S.C + E.C, is that of the window where it is least.
    """
    predictions = []
    for number, question in enumerate(questions):
        candidates: dict[str, Candidate] = {}  # each text once
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
            if found[-1] is not null:  # which stays in the list, whatever its score
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
    """The allowed spans of a question, best first."""
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
    """Marks that a model without accents does not see belong to the character before them."""
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return context[start:end]
