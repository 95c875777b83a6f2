"""Scores predicted answers as SQuAD's official scripts do.

The scripts are evaluate-v1.1.py and evaluate-v2.0.py of rajpurkar/SQuAD-explorer. They differ in
small details. These are kept, including the order of additions, so the scores are equal.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from bert_keras.downstream.squad.predictions import Prediction
from bert_keras.downstream.squad.questions import Question

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Returns a text in lower case, without ASCII punctuation, articles and extra white space."""
    words = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def squad1_scores(
    questions: Sequence[Question],
    predictions: Sequence[Prediction | None],
    *,
    normalized: Callable[[str], str] = normalized,
    units: Callable[[str], Sequence[str]] = str.split,
) -> dict[str, float]:
    """Returns the scores of SQuAD 1.1, `exact_match` and `f1`, in percent.

    A question whose prediction is None scores 0.

    Args:
        questions: The questions.
        predictions: Their predictions.
        normalized: Returns the part of an answer that is compared.
        units: Divides a normalized answer into the words or characters that F1 counts.
    """
    exact = f1 = 0
    for question, prediction in zip(questions, predictions, strict=True):
        if prediction is not None:
            predicted = normalized(prediction.text)
            golds = [normalized(answer.text) for answer in question.answers]
            exact += predicted in golds
            f1 += max(_f1(units(gold), units(predicted)) for gold in golds)
    return {"exact_match": 100.0 * exact / len(questions), "f1": 100.0 * f1 / len(questions)}


def squad2_scores(
    questions: Sequence[Question], predictions: Sequence[Prediction | None]
) -> dict[str, float]:
    """Returns the scores of SQuAD 2.0, in percent.

    A question whose prediction is None scores 0; the official script cannot score such a file.

    Returns:
        `exact` and `f1` of all questions, and `total`, their number. The same with the prefixes
        "HasAns_" and "NoAns_", of the questions with and without an answer. If predictions have
        null odds, also `best_exact` and `best_f1`, the best scores that a threshold on the null
        odds can reach, and these thresholds, `best_exact_thresh` and `best_f1_thresh`.
    """
    pairs = [_exact_and_f1(*pair) for pair in zip(questions, predictions, strict=True)]
    exact, f1 = [score for score, _ in pairs], [score for _, score in pairs]
    has_answer = [bool(question.answers) for question in questions]
    scores: dict[str, float] = {}
    for prefix, rows in (
        ("", range(len(questions))),
        ("HasAns_", [row for row, has in enumerate(has_answer) if has]),
        ("NoAns_", [row for row, has in enumerate(has_answer) if not has]),
    ):
        if total := len(rows):
            scores[f"{prefix}exact"] = 100.0 * sum(exact[row] for row in rows) / total
            scores[f"{prefix}f1"] = 100.0 * sum(f1[row] for row in rows) / total
            scores[f"{prefix}total"] = total
    if any(each is not None and each.null_odds is not None for each in predictions):
        for name, values in (("exact", exact), ("f1", f1)):
            best, threshold = best_threshold(values, has_answer, predictions)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return scores


def best_threshold(
    scores: Sequence[float], has_answer: Sequence[bool], predictions: Sequence[Prediction | None]
) -> tuple[float, float]:
    """Finds the threshold of the null odds above which "no answer" is predicted.

    Args:
        scores: The score of each question, from 0 to 1, with the present prediction.
        has_answer: Whether each question has an answer.
        predictions: The predictions of the questions.

    Returns:
        The best mean score, in percent, and the smallest threshold that reaches it. The threshold
        is 0.0 if "no answer" for every question is best.
    """
    odds = {row: each.null_odds or 0.0 for row, each in enumerate(predictions) if each is not None}
    texts = [each.text if each else "" for each in predictions]
    best = current = sum(not has_answer[row] for row in odds)
    threshold = 0.0
    for row in sorted(odds, key=odds.__getitem__):
        if has_answer[row]:
            current += scores[row]
        elif texts[row]:
            current -= 1
        if current > best:
            best, threshold = current, odds[row]
    return 100.0 * best / len(scores), threshold


def _exact_and_f1(question: Question, prediction: Prediction | None) -> tuple[int, float]:
    if prediction is None:
        return 0, 0.0
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
