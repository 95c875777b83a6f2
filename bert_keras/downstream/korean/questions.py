"""Defines question answering as in KorQuAD 1.0 and KLUE-MRC."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from bert_keras.downstream.korean.answers import klue_mrc_scores, korquad_scores
from bert_keras.downstream.korean.texts import klue_files
from bert_keras.downstream.squad.predictions import Prediction
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.task import SquadTask
from bert_keras.downstream.task import data_files, task_folder
from bert_keras.files import StrPath
from bert_keras.options import fixed


@dataclass(frozen=True, kw_only=True)
class KorquadTask(SquadTask):
    """KorQuAD 1.0, whose files have the format of SQuAD 1.1 and whose F1 counts characters.

    The maximum length is that of monologg/KoELECTRA (finetune/config/korquad).
    """

    version: str = fixed("1.1")
    max_length: int = 512  # maximum number of tokens of a window, special tokens included

    def files(self, data: StrPath) -> dict[str, str]:
        names = {split: [f"KorQuAD_v1.0_{split}.json"] for split in ("train", "dev")}
        return data_files(task_folder(data, "korquad"), names=names)

    def score(
        self, examples: Sequence[Question], predictions: Sequence[Prediction | None]
    ) -> dict[str, float]:
        self.check_labels(examples)
        return korquad_scores(examples, predictions)


@dataclass(frozen=True, kw_only=True)
class KlueMrcTask(SquadTask):
    """KLUE's machine reading comprehension, which has questions without an answer.

    The files have the format of SQuAD 2.0 with "guid" instead of "id". As in KLUE-baseline
    (models/machine_reading_comprehension.py), "no answer" is predicted if its score is the highest:
    `null_threshold` stays as it is.
    """

    version: str = fixed("2.0")
    max_length: int = 510  # maximum number of tokens of a window, special tokens included

    metric: ClassVar[str] = "rouge_w"
    score_of_one: ClassVar[str] = "rouge_w"
    id_name: ClassVar[str] = "guid"

    def files(self, data: StrPath) -> dict[str, str]:
        names = {split: [file] for split, file in klue_files("klue-mrc").items()}
        return data_files(task_folder(data, "klue-mrc-v1.1"), names=names)

    def tuned(self, examples: Sequence[Question], predictions: Sequence[Prediction | None]) -> Self:
        return self

    def score(
        self, examples: Sequence[Question], predictions: Sequence[Prediction | None]
    ) -> dict[str, float]:
        self.check_labels(examples)
        return klue_mrc_scores(examples, predictions)


QUESTION_TASKS = (KorquadTask(name="korquad"), KlueMrcTask(name="klue-mrc"))
