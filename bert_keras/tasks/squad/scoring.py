"""Predicted answers and those of annotators in, the scores of SQuAD's official scripts out.

evaluate-v1.1.py and evaluate-v2.0.py (rajpurkar/SQuAD-explorer) differ in small ways, which are
kept, down to the order of sums.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from bert_keras.tasks.squad.predictions import Prediction
from bert_keras.tasks.squad.questions import Question

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """In lower case, without ASCII punctuation, articles and extra white space."""
    bare = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def scores_of_answers(
    questions: Sequence[Question], predictions: Sequence[Prediction | None]
) -> dict[str, float]:
    """SQuAD 1.1: `exact_match` and `f1`, in percent; a question without a prediction scores 0."""
    exact = f1 = 0
    for question, prediction in zip(questions, predictions, strict=True):
        if prediction is not None:
            predicted = normalized(prediction.text)
            golds = [normalized(answer.text) for answer in question.answers]
            exact += predicted in golds
            f1 += max(_f1(gold.split(), predicted.split()) for gold in golds)
    return {"exact_match": 100.0 * exact / len(questions), "f1": 100.0 * f1 / len(questions)}


def scores_of_answers_or_none(
    questions: Sequence[Question], predictions: Sequence[Prediction | None]
) -> dict[str, float]:
    """SQuAD 2.0: `exact`, `f1`, of all and of those with (HasAns_) and without (NoAns_) an answer;
    with null odds also the best that a threshold on them could reach, and this threshold.

    A question without a prediction scores 0; the official script cannot score such a file.
    """
    raw = [_exact_and_f1(*pair) for pair in zip(questions, predictions, strict=True)]
    exact, f1 = [score for score, _ in raw], [score for _, score in raw]
    has_answer = [bool(question.answers) for question in questions]
    scores: dict[str, float] = {}
    for prefix, chosen in (
        ("", range(len(raw))),
        ("HasAns_", [row for row, has in enumerate(has_answer) if has]),
        ("NoAns_", [row for row, has in enumerate(has_answer) if not has]),
    ):
        if chosen:
            total = len(chosen)
            scores[f"{prefix}exact"] = 100.0 * sum(exact[row] for row in chosen) / total
            scores[f"{prefix}f1"] = 100.0 * sum(f1[row] for row in chosen) / total
            scores[f"{prefix}total"] = total
    if any(each is not None and each.null_odds is not None for each in predictions):
        for name, values in (("exact", exact), ("f1", f1)):
            best, threshold = best_threshold(values, has_answer, predictions)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return scores


def best_threshold(
    scores: Sequence[float], has_answer: Sequence[bool], predictions: Sequence[Prediction | None]
) -> tuple[float, float]:
    """The best mean score, in percent, where null odds above a threshold mean "no answer".

    Of thresholds that are as good, the least; 0.0 where no answer at all is best.
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


def _f1(gold: list[str], predicted: list[str]) -> float:
    num_same = sum((Counter(predicted) & Counter(gold)).values())
    if num_same == 0:
        return 0
    precision, recall = num_same / len(predicted), num_same / len(gold)
    return (2 * precision * recall) / (precision + recall)
