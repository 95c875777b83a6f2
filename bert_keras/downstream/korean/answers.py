"""Scores predicted answers as the official scripts of KorQuAD 1.0 and KLUE-MRC do."""

import difflib
import re
import string
from collections.abc import Sequence

from bert_keras.downstream.squad.predictions import Prediction
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.scoring import squad1_scores

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_QUOTES_AS_SPACES = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
# The pattern of KLUE-baseline. Its first bracket is closed too early, so it matches only a quote
# that is followed by "()‘’"; all other quotes remain unless they are ASCII.
_KLUE_QUOTES = re.compile(r"['\"《》<>〈〉]\(\)‘’")


def korquad_scores(
    questions: Sequence[Question], predictions: Sequence[Prediction | None]
) -> dict[str, float]:
    """Returns the scores of KorQuAD's evaluate-v1.0.py, `exact_match` and `f1`, in percent.

    F1 compares the characters of both answers, without their order. Quotes and brackets become
    spaces, and ASCII punctuation is removed. A question whose prediction is None scores 0.
    """

    def normalized(text: str) -> str:
        words = text.translate(_QUOTES_AS_SPACES).lower().translate(_WITHOUT_PUNCTUATION)
        return " ".join(words.split())

    return squad1_scores(
        questions, predictions, normalized=normalized, units=lambda text: text.replace(" ", "")
    )


def klue_mrc_scores(
    questions: Sequence[Question], predictions: Sequence[Prediction | None]
) -> dict[str, float]:
    """Returns the scores of KLUE-MRC, `rouge_w` and `exact_match`, in percent.

    The rules are those of KLUE-benchmark/KLUE-baseline (metrics/utils.py). The right answer to a
    question without answers is "". A question whose prediction is None scores 0.
    """
    rouge = exact = 0.0
    for question, prediction in zip(questions, predictions, strict=True):
        if prediction is not None:
            predicted = klue_normalized(prediction.text)
            golds = [klue_normalized(answer.text) for answer in question.answers] or [""]
            rouge += max(rouge_w(predicted, gold) for gold in golds)
            exact += predicted in golds
    return {
        "rouge_w": 100.0 * rouge / len(questions),
        "exact_match": 100.0 * exact / len(questions),
    }


def klue_normalized(text: str) -> str:
    """Returns a text in lower case without ASCII punctuation and extra white space."""
    text = _KLUE_QUOTES.sub(" ", text.lower()).translate(_WITHOUT_PUNCTUATION)
    return " ".join(text.split())


def rouge_w(predicted: str, gold: str) -> float:
    """Returns the F1 of the longest common substring of two normalized answers, from 0 to 1.

    KLUE names it ROUGE-W. Like KLUE-baseline, it ignores very frequent characters of a gold answer
    of 200 characters or more, because `difflib` does.
    """
    if not gold:
        return float(predicted == gold)
    size = difflib.SequenceMatcher(None, predicted, gold).find_longest_match().size
    return 2 * size / (len(predicted) + len(gold))
