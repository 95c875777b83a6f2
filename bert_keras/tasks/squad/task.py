"""SQuAD 1.1 and 2.0 as tasks: a question and a context in, the span that answers it out."""

import dataclasses
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import keras

from bert_keras.architectures import QUESTION_ANSWERING
from bert_keras.errors import InputError
from bert_keras.options import check_least
from bert_keras.tasks.squad import prediction_files
from bert_keras.tasks.squad.predictions import (
    Prediction,
    predicted_answers,
)
from bert_keras.tasks.squad.questions import (
    Question,
    builder_rows,
    check_answers,
    json_rows,
    misplaced_answers,
    read_questions,
)
from bert_keras.tasks.squad.scoring import scores_of_answers, scores_of_answers_or_none
from bert_keras.tasks.squad.windows import NUM_SPECIALS, Windows, windows_over
from bert_keras.tasks.task import Outputs, Task, data_files, nothing_to_score
from bert_keras.tasks.tfds import is_tfds
from bert_keras.text.tokenizer import TextTokenizer

_MOST_LISTED = 20  # misplaced answers, of many


@dataclass(frozen=True, kw_only=True)
class SquadTask(Task[Question, Windows, Prediction | None]):
    """Lengths and `stride` count pieces; the defaults are those of google-research/bert
    run_squad.py. `version` "2.0" knows questions without an answer: those whose null odds exceed
    `null_threshold`, which `tuned` chooses on the dev set.
    """

    version: str
    max_length: int = 384
    stride: int = 128
    max_question_length: int = 64
    max_answer_length: int = 30
    num_best: int = 20
    null_threshold: float = 0.0

    model: ClassVar[str] = QUESTION_ANSWERING.name
    is_metric_percentage: ClassVar[bool] = True  # as the official scorer prints it
    prediction_file: ClassVar[str] = "predictions.json"

    def __post_init__(self):
        if self.version not in ("1.1", "2.0"):
            raise InputError(f"version is {self.version!r}; expected 1.1 or 2.0")
        check_least(self, 1, "stride", "max_question_length", "max_answer_length", "num_best")
        if not math.isfinite(self.null_threshold):
            raise InputError(f"null_threshold is {self.null_threshold}; expected such as 0.0")
        least = self.max_question_length + NUM_SPECIALS + 1
        if self.max_length < least:
            raise InputError(
                f"max_length is {self.max_length}; a question of max_question_length="
                f"{self.max_question_length} leaves room for a passage from {least} on"
            )

    @property
    def allows_no_answer(self) -> bool:
        return self.version == "2.0"

    @property
    def metric(self) -> str:
        """Of questions without answers too, the F1 that the best threshold gives."""
        return "best_f1" if self.allows_no_answer else "f1"

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("question", "context")

    def files(self, data: str | os.PathLike) -> dict[str, str]:
        if is_tfds(data):
            return {"train": f"{data}:train", "dev": f"{data}:validation"}
        names = {
            split: (f"{split}-v{self.version}.json", f"{split}.json")
            for split in ("train", "dev", "test")
        }
        return data_files(data, names=names)

    def read(self, path: str | os.PathLike, *, split: str = "train") -> list[Question]:
        """A file in SQuAD's format, or a place such as tfds:squad/v2.0:train.

        Of "train" those questions are left out, and listed on stderr, none of whose answers stands
        in the context where it says that it does.
        """
        place = os.fspath(path)
        rows = builder_rows(place) if is_tfds(place) else json_rows(place)
        questions = read_questions(rows)
        if not questions:
            raise InputError(f"{place} has no questions; expected at least one")
        if split == "train":
            questions = _without_misplaced(questions, place)
        if split in ("train", "dev"):
            check_answers(questions, allows_no_answer=self.allows_no_answer)
        return questions

    def encode(self, examples: Sequence[Question], tokenizer: TextTokenizer) -> Windows:
        return windows_over(
            examples,
            tokenizer,
            max_length=self.max_length,
            stride=self.stride,
            max_question_length=self.max_question_length,
        )

    def compile_arguments(self) -> dict:
        """The loss is the mean of both ends', as in run_squad.py."""
        return {
            "loss": {
                end: keras.losses.SparseCategoricalCrossentropy(from_logits=True)
                for end in ("start", "end")
            },
            "loss_weights": {"start": 0.5, "end": 0.5},
        }

    def predictions(
        self, examples: Sequence[Question], encoded: Windows, outputs: Outputs
    ) -> list[Prediction]:
        return predicted_answers(
            examples,
            encoded,
            outputs,
            num_best=self.num_best,
            max_answer_length=self.max_answer_length,
            null_threshold=self.null_threshold if self.allows_no_answer else None,
        )

    def tuned(self, examples: Sequence[Question], predictions: Sequence[Prediction]) -> Self:
        """With the `null_threshold` of the best F1 of these predictions, which this task made.

        They are taken as answers throughout, or thresholds above today's could not be tried. Where
        no answer at all is best, it lies below all null odds; the official script would say 0.0.
        """
        if not self.allows_no_answer:
            return self
        answers = [
            dataclasses.replace(each, text=next(c.text for c in each.candidates if c.text))
            for each in predictions
            if each is not None
        ]
        scores = scores_of_answers_or_none(examples, answers)
        threshold = scores["best_f1_thresh"]
        if scores["best_f1"] == 100.0 * scores.get("NoAns_total", 0) / scores["total"]:
            threshold = min(each.null_odds or 0.0 for each in answers) - 1.0
        return dataclasses.replace(self, null_threshold=threshold)

    def check_labels(self, examples: Sequence[Question]) -> None:
        for each in examples:
            if not each.answers and not each.is_impossible:
                raise nothing_to_score(each.place)

    def score(
        self, examples: Sequence[Question], predictions: Sequence[Prediction | None]
    ) -> dict[str, float]:
        self.check_labels(examples)
        if self.allows_no_answer:
            return scores_of_answers_or_none(examples, predictions)
        return scores_of_answers(examples, predictions)

    def write_predictions(
        self,
        path: str | os.PathLike,
        examples: Sequence[Question],
        predictions: Sequence[Prediction],
    ) -> None:
        prediction_files.write_predictions(Path(path), examples, predictions)

    def read_predictions(
        self, path: str | os.PathLike, examples: Sequence[Question]
    ) -> list[Prediction | None]:
        return prediction_files.read_predictions(Path(path), examples)


def _without_misplaced(questions: list[Question], place: str) -> list[Question]:
    misplaced = misplaced_answers(questions)
    if not misplaced:
        return questions
    left = len(questions) - len(misplaced)
    if not left:
        raise InputError(f"{place} has no answer that stands where it says; first {misplaced[0]}")
    print(
        f"{place}: {len(misplaced)} of {len(questions)} questions are left out of training, for "
        "their answers do not stand in the context at their answer_start:",
        *(f"  {line}" for line in misplaced[:_MOST_LISTED]),
        *([f"  and {len(misplaced) - _MOST_LISTED} more"] if len(misplaced) > _MOST_LISTED else []),
        sep="\n",
        file=sys.stderr,
    )
    return [each for each in questions if each.is_impossible or each.target is not None]


SQUAD_TASKS = {
    "squad1": SquadTask(name="squad1", version="1.1"),
    "squad2": SquadTask(name="squad2", version="2.0"),
}
