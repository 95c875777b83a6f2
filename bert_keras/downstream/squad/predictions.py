"""Finds the best answer spans from the start and end logits of a model."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.windows import QuestionWindows, max_context
from bert_keras.downstream.task import softmax


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry of the n-best list of a question."""

    text: str  # "" for "no answer"
    probability: float  # softmax of the scores over the n-best list
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        """The score of the span, by which candidates are ordered."""
        return self.start_logit + self.end_logit


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted answer of a question."""

    text: str  # "" for "no answer"
    # The score of "no answer" minus that of the best answer; None if every question has an answer.
    null_odds: float | None = None
    # The n-best list, best first; () for a prediction that was read from a file.
    candidates: tuple[Candidate, ...] = ()


class TokenSpan(NamedTuple):
    """A span of tokens of a context and its logits."""

    first: int  # index of the first token in `QuestionWindows.tokens`
    last: int  # index of the last token
    start_logit: float
    end_logit: float


def predicted_answers(
    questions: Sequence[Question],
    windows: QuestionWindows,
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
    for index, question in enumerate(questions):
        best_logits: dict[str, tuple[float, float]] = {}  # of the best span of each text
        for span in spans(windows, index, outputs, max_answer_length, context=question.context):
            characters = windows.offsets[[span.first, span.last]]
            text = cut(question.context, characters[0, 0], characters[1, 1])
            best_logits.setdefault(text, (span.start_logit, span.end_logit))
            if len(best_logits) == num_best:
                break
        n_best = list(best_logits.items())
        (text, best), null_odds = n_best[0], None
        if null_threshold is not None:
            nulls = [outputs[row] for row in windows.of_question(index)]
            null = min(((float(x["start"][0]), float(x["end"][0])) for x in nulls), key=sum)
            null_odds = sum(null) - sum(best)
            text = "" if null_odds > null_threshold else text
            n_best = sorted([*n_best, ("", null)], key=lambda item: sum(item[1]), reverse=True)
            if n_best[-1][1] is not null:  # the list contains "no answer" even if it is the worst
                n_best = n_best[:num_best]
        probabilities = softmax(np.array([sum(logits) for _, logits in n_best])).tolist()
        candidates = tuple(
            Candidate(text, probability, *logits)
            for (text, logits), probability in zip(n_best, probabilities, strict=True)
        )
        predictions.append(Prediction(text, null_odds, candidates))
    return predictions


def spans(
    windows: QuestionWindows,
    question: int,
    outputs: Sequence[dict[str, np.ndarray]],
    max_answer_length: int,
    *,
    context: str,
) -> Iterator[TokenSpan]:
    """Yields the valid spans of a question, best first.

    A valid span has at most `max_answer_length` tokens and starts in the window that has the
    maximum context of its first token (see `max_context`). Its first and its last token are no
    white space, which byte-level BPE has as tokens.

    Args:
        windows: The windows of all questions.
        question: The index of the question.
        outputs: The logits of each window.
        max_answer_length: Maximum number of tokens of a span.
        context: The context of the question.
    """
    num_before = np.cumsum([0, *(not character.isspace() for character in context)])
    rows = windows.of_question(question)
    passage_starts = windows.starts_N2[rows.start : rows.stop, 1]
    question_lengths, passage_lengths = windows.lengths_N2[rows.start : rows.stop].T
    is_max = max_context(passage_starts - passage_starts[0], passage_lengths)
    before_passage = question_lengths + windows.vocabulary.num_specials(2) - 1
    scores, starts, ends = [], [], []
    for index, row in enumerate(rows):
        passage = slice(before_passage[index], before_passage[index] + passage_lengths[index])
        start = outputs[row]["start"][passage].astype(np.float64)
        end = outputs[row]["end"][passage].astype(np.float64)
        offsets_T2 = windows.offsets[passage_starts[index] :][: passage_lengths[index]]
        is_blank = np.diff(num_before[offsets_T2], axis=1)[:, 0] == 0
        start[is_blank | ~is_max[index]] = end[is_blank] = -np.inf
        padding = np.full(max_answer_length - 1, -np.inf)
        ends_TL = np.lib.stride_tricks.sliding_window_view(
            np.concatenate([end, padding]), max_answer_length
        )
        scores.append((start[:, None] + ends_TL).ravel())
        starts.append(start)
        ends.append(end)
    scores = np.concatenate(scores)
    starts, ends = np.concatenate(starts), np.concatenate(ends)
    tokens = np.concatenate(
        [s + np.arange(n) for s, n in zip(passage_starts, passage_lengths, strict=True)]
    )
    for index in np.argsort(-scores, kind="stable"):
        if scores[index] == -np.inf:
            return
        first, extra = divmod(int(index), max_answer_length)
        last = first + extra
        yield TokenSpan(tokens[first], tokens[last], float(starts[first]), float(ends[last]))


def cut(context: str, start: int, end: int) -> str:
    """Returns the characters [start, end) of a context, and the combining marks after them.

    An uncased tokenizer drops these marks, so its offsets do not include them at the end.
    """
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return context[start:end]
