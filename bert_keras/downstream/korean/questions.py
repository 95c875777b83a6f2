"""Defines question answering as in KorQuAD 1.0 and KLUE-MRC."""

import difflib
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from bert_keras.downstream.korean.texts import klue_files
from bert_keras.downstream.squad.answers import squad1_scores
from bert_keras.downstream.squad.task import Predictions, SquadTask
from bert_keras.downstream.task import FileNames, Scores, fixed
from bert_keras.fields import setting
from bert_keras.kinds.windows import Question

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_QUOTES_AS_SPACES = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
# The pattern of KLUE-baseline. Its first bracket is closed too early, so it matches only a quote
# that is followed by "()‘’"; all other quotes remain unless they are ASCII.
_KLUE_QUOTES = re.compile(r"['\"《》<>〈〉]\(\)‘’")


def normalize_klue_answer(text: str) -> str:
    """Returns a text in lower case without ASCII punctuation and extra white space."""
    text = _KLUE_QUOTES.sub(" ", text.lower()).translate(_WITHOUT_PUNCTUATION)
    return " ".join(text.split())


def rouge_w(predicted: str, gold: str) -> float:
    """Returns KLUE's ROUGE-W: the F1 of the longest common substring that `difflib` finds."""
    if not gold:
        return float(predicted == gold)
    size = difflib.SequenceMatcher(None, predicted, gold).find_longest_match().size
    return 2 * size / (len(predicted) + len(gold))


@dataclass(frozen=True, kw_only=True)
class KorquadTask(SquadTask):
    """KorQuAD 1.0, in SQuAD's format, with the maximum length of monologg/KoELECTRA."""

    version: str = fixed("1.1")
    max_length: int = setting(512, "maximum number of tokens of a window, special tokens included")

    folder: ClassVar[str] = "korquad"
    file_names: ClassVar[FileNames] = {
        split: [f"KorQuAD_v1.0_{split}.json"] for split in ("train", "dev")
    }

    def score(self, examples: Sequence[Question], predictions: Predictions) -> Scores:
        """Returns `exact_match`, and `f1` of characters, as KorQuAD's evaluate-v1.0.py."""

        def normalize(text: str) -> str:
            words = text.translate(_QUOTES_AS_SPACES).lower().translate(_WITHOUT_PUNCTUATION)
            return " ".join(words.split())

        options = {"normalize": normalize, "units": lambda text: text.replace(" ", "")}
        return squad1_scores(examples, predictions, **options)


@dataclass(frozen=True, kw_only=True)
class KlueMrcTask(SquadTask):
    """KLUE-MRC, in the format of SQuAD 2.0 with "guid" instead of "id".

    As in KLUE-baseline (models/machine_reading_comprehension.py), `null_threshold` is not tuned.
    """

    version: str = fixed("2.0")
    max_length: int = setting(510, "maximum number of tokens of a window, special tokens included")

    metric: ClassVar[str] = "rouge_w"
    score_of_one: ClassVar[str] = "rouge_w"
    id_name: ClassVar[str] = "guid"
    folder: ClassVar[str] = "klue-mrc-v1.1"
    file_names: ClassVar[FileNames] = klue_files("klue-mrc")

    def tuned(self, examples: Sequence[Question], predictions: Predictions) -> Self:
        return self

    def score(self, examples: Sequence[Question], predictions: Predictions) -> Scores:
        """Returns `rouge_w` and `exact_match` as KLUE-baseline (metrics/utils.py); "" is none."""
        rouge = exact = 0.0
        for question, prediction in zip(examples, predictions, strict=True):
            predicted = normalize_klue_answer(prediction.text)
            golds = [normalize_klue_answer(answer.text) for answer in question.answers] or [""]
            rouge += max(rouge_w(predicted, gold) for gold in golds)
            exact += predicted in golds
        return {"rouge_w": rouge / len(examples), "exact_match": exact / len(examples)}


QUESTION_TASKS = (KorquadTask(name="korquad"), KlueMrcTask(name="klue-mrc"))
