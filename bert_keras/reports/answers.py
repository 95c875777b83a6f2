"""Compares gold and predicted answers to questions and marks them in their contexts."""

import itertools
from collections.abc import Sequence

from bert_keras.downstream.squad.answers import Prediction
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.task import SquadTask
from bert_keras.reports.findings import Errors, Findings, confusion
from bert_keras.reports.page import Cell, MarkedText, decimals

MARGIN = 300  # characters shown before and after the marked answers
ANSWER, NONE = "answer", "none"


def answer_findings(
    task: SquadTask, examples: Sequence[Question], predictions: Sequence[Prediction | None]
) -> Findings:
    """Returns the questions whose F1, or other score of a single question, is below 100.

    For SQuAD 2.0 the findings include a confusion matrix of answerable and unanswerable questions.
    """
    errors: Errors = []
    for question, prediction in zip(examples, predictions, strict=True):
        score = task.score([question], [prediction])[task.score_of_one]
        if score == 100.0:
            continue
        text = prediction.text if prediction else ""
        probability = _probability(prediction)
        golds = list(dict.fromkeys(answer.text for answer in question.answers))
        cells = [
            Cell([[question.question], _marked(question, text)]),
            " / ".join(golds) or NONE,
            text or NONE,
            probability,
            decimals(score),
        ]
        errors.append(((100.0 - score) * (1.0 if probability is None else probability), cells))
    has_probabilities = any(prediction and prediction.candidates for prediction in predictions)
    order = "largest and most probable errors" if has_probabilities else "largest errors"
    title = task.score_of_one.replace("_", "-").upper()
    sections = []
    if task.allows_no_answer:
        pairs = [
            (ANSWER if q.answers else NONE, ANSWER if p and p.text else NONE)
            for q, p in zip(examples, predictions, strict=True)
        ]
        sections.append(confusion("Answer or none", pairs, [ANSWER, NONE]))
    return Findings(
        sections=sections,
        columns=["question and context", "gold", "predicted", "probability", title],
        errors=errors,
        order=f"{order} first; gold answers are green, predicted answers are red, and text in "
        "both is violet",
    )


def _probability(prediction: Prediction | None) -> float | None:
    if prediction is None:
        return None
    candidates = (each for each in prediction.candidates if each.text == prediction.text)
    return next((each.probability for each in candidates), None)


def _marked(question: Question, predicted: str) -> list[MarkedText | str]:
    """Returns the context around the gold and the predicted answer, with both answers marked."""
    context, kinds = question.context, {}
    golds = {(answer.start, answer.start + len(answer.text)) for answer in question.answers}
    for start, end in golds:
        kinds |= dict.fromkeys(range(max(0, start), min(end, len(context))), "good")
    start = _nearest(context, predicted, min(golds, default=(0, 0))[0])
    if start is not None:
        for position in range(start, start + len(predicted)):
            kinds[position] = "both" if position in kinds else "bad"
    first = max(0, min(kinds, default=0) - MARGIN)
    last = min(len(context), max(kinds, default=0) + MARGIN)
    edges = [i for i in range(first + 1, last) if kinds.get(i) != kinds.get(i - 1)]
    parts = [
        MarkedText(context[start:end], kinds.get(start, ""))
        for start, end in itertools.pairwise([first, *edges, last])
    ]
    return ["… " if first else "", *parts, " …" if last < len(context) else ""]


def _nearest(context: str, text: str, position: int) -> int | None:
    """Returns the occurrence of a text in the context that is nearest to a position.

    Returns None if the text is empty or does not occur.
    """
    if not text:
        return None
    after, before = context.find(text, position), context.rfind(text, 0, position + len(text))
    starts = (start for start in (after, before) if start >= 0)
    return min(starts, key=lambda start: abs(start - position), default=None)
