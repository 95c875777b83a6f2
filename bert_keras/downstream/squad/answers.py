"""Finds the best answer spans from the logits of a model, and scores them as SQuAD does."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.windows import QuestionWindows, max_context
from bert_keras.downstream.task import softmax

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry of the n-best list of a question."""

    text: str  # "" for "no answer"
    probability: float  # softmax of the scores over the n-best list
    start_logit: float
    end_logit: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted answer of a question."""

    text: str  # "" for "no answer"
    # The score of "no answer" minus that of the best answer; None if every question has an answer.
    null_odds: float | None = None
    candidates: tuple[Candidate, ...] = ()  # the n-best list, best first


class TokenSpan(NamedTuple):
    """A span of tokens of a context, and its logits."""

    first: int  # index in `QuestionWindows.tokens`
    last: int
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
    S.C + E.C, is the minimum over the windows of the question. `num_best` limits the candidates,
    which have different texts. A question whose null odds exceed `null_threshold` gets the
    prediction ""; with None, every question has an answer.
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
    maximum context of its first token. Its first and its last token are no white space.
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
    """Returns the characters [start, end) and the combining marks after them."""
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return context[start:end]


# The scores are those of evaluate-v1.1.py and evaluate-v2.0.py of rajpurkar/SQuAD-explorer. The
# scripts differ in small details. These are kept, including the order of additions.


def normalized(text: str) -> str:
    """Returns a text in lower case, without ASCII punctuation, articles and extra white space."""
    words = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def squad1_scores(
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    *,
    normalized: Callable[[str], str] = normalized,
    units: Callable[[str], Sequence[str]] = str.split,
) -> dict[str, float]:
    """Returns `exact_match` and `f1` of SQuAD 1.1, which counts `units` of `normalized` answers."""
    exact = f1 = 0
    for question, prediction in zip(questions, predictions, strict=True):
        predicted = normalized(prediction.text)
        golds = [normalized(answer.text) for answer in question.answers]
        exact += predicted in golds
        f1 += max(_f1(units(gold), units(predicted)) for gold in golds)
    return {"exact_match": exact / len(questions), "f1": f1 / len(questions)}


def squad2_scores(
    questions: Sequence[Question], predictions: Sequence[Prediction]
) -> dict[str, float]:
    """Returns the scores of SQuAD 2.0.

    They are `exact` and `f1` of all questions, and `total`, their number; the same with the
    prefixes "HasAns_" and "NoAns_"; and with null odds `best_exact`, `best_f1`, the best scores
    that a threshold can reach, and these thresholds, `best_exact_thresh` and `best_f1_thresh`.
    """
    pairs = [_exact_and_f1(*pair) for pair in zip(questions, predictions, strict=True)]
    exact, f1 = [score for score, _ in pairs], [score for _, score in pairs]
    has_answer = [bool(question.answers) for question in questions]
    scores: dict[str, float] = {}
    for prefix, kinds in ("", (True, False)), ("HasAns_", (True,)), ("NoAns_", (False,)):
        rows = [row for row, has in enumerate(has_answer) if has in kinds]
        if total := len(rows):
            scores[f"{prefix}exact"] = sum(exact[row] for row in rows) / total
            scores[f"{prefix}f1"] = sum(f1[row] for row in rows) / total
            scores[f"{prefix}total"] = total
    if predictions[0].null_odds is not None:
        for name, values in (("exact", exact), ("f1", f1)):
            best, threshold = best_threshold(values, has_answer, predictions)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return scores


def best_threshold(
    scores: Sequence[float], has_answer: Sequence[bool], predictions: Sequence[Prediction]
) -> tuple[float, float]:
    """Returns the best mean score, and the smallest threshold that reaches it.

    "No answer" is predicted above it; it is 0.0 if "no answer" is best for every question. `scores`
    are those of the present predictions, from 0 to 1.
    """
    odds = [each.null_odds or 0.0 for each in predictions]
    best = current = sum(not has for has in has_answer)
    threshold = 0.0
    for row in sorted(range(len(odds)), key=odds.__getitem__):
        if has_answer[row]:
            current += scores[row]
        elif predictions[row].text:
            current -= 1
        if current > best:
            best, threshold = current, odds[row]
    return best / len(scores), threshold


def _exact_and_f1(question: Question, prediction: Prediction) -> tuple[int, float]:
    golds = [gold for answer in question.answers if (gold := normalized(answer.text))] or [""]
    predicted = normalized(prediction.text)
    exact = int(predicted in golds)
    if not predicted:
        return exact, float(exact)
    return exact, float(max(_f1(gold.split(), predicted.split()) for gold in golds))


def _f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    num_same = sum((Counter(predicted) & Counter(gold)).values())
    if num_same == 0:
        return 0
    precision, recall = num_same / len(predicted), num_same / len(gold)
    return (2 * precision * recall) / (precision + recall)
