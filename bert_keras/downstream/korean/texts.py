"""Defines the Korean tasks of a label or a number for one text or two, and of questions."""

import difflib
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from bert_keras.downstream.glue import PAIR, GlueTask
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

TEST_AS_DEV = {"train": "train", "dev": "test", "test": "test"}  # if the data has no dev file


def klue_files(name: str, *, suffix: str = ".json") -> FileNames:
    """Returns the files of each split of a KLUE task; the test files are not published."""
    return {split: (f"{name}-v1.1_{split}{suffix}",) for split in ("train", "dev", "test")}


# Files, labels and scores of KLUE follow KLUE-benchmark/KLUE-baseline (klue_baseline/data,
# metrics/functional.py), except that scores are fractions of 1. Files of KorNLI and KorSTS come
# from kakaobrain/kor-nlu-datasets. Files of NSMC, and the scores of all three, follow
# monologg/KoELECTRA (finetune/config, processor/seq_cls.py, src/utils.py).
KOREAN_TASKS: dict[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask(
            name="klue-tc",
            folder="ynat-v1.1",
            file_names=klue_files("ynat"),
            text_columns=("title",),
            labels=("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠"),
            scores=("macro_f1", "accuracy"),
        ),
        GlueTask(
            name="klue-sts",
            folder="klue-sts-v1.1",
            file_names=klue_files("klue-sts"),
            label_column="labels.real-label",
            kind="number",
            labels=("real-label",),
            scores=("pearson", "f1_of_similar"),
        ),
        GlueTask(
            name="klue-nli",
            folder="klue-nli-v1.1",
            file_names=klue_files("klue-nli"),
            text_columns=("premise", "hypothesis"),
            label_column="gold_label",
            labels=("entailment", "contradiction", "neutral"),
        ),
        GlueTask(
            name="nsmc",  # the test file chooses the best epoch
            folder="nsmc",
            file_names={split: (f"ratings_{file}.txt",) for split, file in TEST_AS_DEV.items()},
            text_columns=("document",),
        ),
        GlueTask(
            name="kornli",  # trained on the translation of MNLI alone
            folder="KorNLI",
            file_names={
                "train": ("multinli.train.ko.tsv",),
                "dev": ("xnli.dev.ko.tsv",),
                "test": ("xnli.test.ko.tsv",),
            },
            text_columns=("premise", "hypothesis"),
            file_columns=PAIR,
            label_column="gold_label",
            labels=("contradiction", "entailment", "neutral"),
        ),
        GlueTask(
            name="korsts",
            folder="KorSTS",
            file_names={split: (f"sts-{split}.tsv",) for split in ("train", "dev", "test")},
            label_column="score",
            kind="number",
            labels=("score",),
            scores=("spearman", "pearson"),
        ),
    )
}


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
    question_metric: ClassVar[str] = "rouge_w"
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
