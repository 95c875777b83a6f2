"""Scores answers as SQuAD does."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from bert_keras.kinds.span import Prediction
from bert_keras.kinds.windows import Question

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)

# The scores are as in evaluate-v1.1.py and evaluate-v2.0.py of rajpurkar/SQuAD-explorer. The
# scripts differ in small details, which are kept, as is the order of additions.


def normalize_answer(text: str) -> str:
    """Returns a text in lower case, without ASCII punctuation, articles and extra white space."""
    words = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def squad1_scores(
    questions: Sequence[Question],
    predictions: Sequence[Prediction],
    *,
    normalize: Callable[[str], str] = normalize_answer,
    units: Callable[[str], Sequence[str]] = str.split,
) -> dict[str, float]:
    """Returns `exact_match` and `f1` of SQuAD 1.1, from 0 to 1.

    Args:
        questions: The questions, each with at least one answer.
        predictions: A prediction for each question.
        normalize: Converts an answer to the form that is compared.
        units: Divides a normalized answer into the units that F1 counts, by default words.
    """
    exact = f1 = 0
    for question, prediction in zip(questions, predictions, strict=True):
        predicted = normalize(prediction.text)
        golds = [normalize(answer.text) for answer in question.answers]
        exact += predicted in golds
        f1 += max(_f1(units(gold), units(predicted)) for gold in golds)
    return {"exact_match": exact / len(questions), "f1": f1 / len(questions)}


def squad2_scores(
    questions: Sequence[Question], predictions: Sequence[Prediction]
) -> dict[str, float]:
    """Returns the scores of SQuAD 2.0.

    They are `exact`, `f1` and `total` of all questions, and with the prefixes "HasAns_" and
    "NoAns_" of the questions with and without an answer. If predictions have null odds, there are
    also `best_exact` and `best_f1`, and the thresholds that reach them.
    """
    exact: list[int] = []  # for each question, 0 or 1
    f1: list[float] = []  # for each question
    for question, prediction in zip(questions, predictions, strict=True):
        golds = [normalize_answer(answer.text).split() for answer in question.answers]
        golds = [words for words in golds if words] or [[]]  # [] stands for "no answer"
        predicted = normalize_answer(prediction.text).split()
        exact.append(int(predicted in golds))
        f1.append(max(_f1(gold, predicted) for gold in golds) if predicted else exact[-1])
    has_answer = [bool(question.answers) for question in questions]
    scores: dict[str, float] = {}
    for prefix, included in ("", (True, False)), ("HasAns_", (True,)), ("NoAns_", (False,)):
        rows = [row for row, has in enumerate(has_answer) if has in included]
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
    """Returns the best mean score, and the smallest threshold for null odds that reaches it.

    A question with null odds above the threshold is not answered. `scores` are from 0 to 1, of the
    answers. The threshold is 0.0 if "no answer" is best for every question.
    """
    odds = [each.null_odds or 0.0 for each in predictions]
    best = current = sum(not has for has in has_answer)  # if no question is answered
    threshold = 0.0
    for row in sorted(range(len(odds)), key=odds.__getitem__):  # answers one more question
        if has_answer[row]:
            current += scores[row]
        elif predictions[row].text:
            current -= 1
        if current > best:
            best, threshold = current, odds[row]
    return best / len(scores), threshold


def _f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    num_same = sum((Counter(predicted) & Counter(gold)).values())
    if num_same == 0:
        return 0
    precision, recall = num_same / len(predicted), num_same / len(gold)
    return (2 * precision * recall) / (precision + recall)
