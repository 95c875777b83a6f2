"""SQuAD 1.1 and 2.0: finds the span of a context that answers a question."""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

import keras

from bert_keras.architectures import QUESTION_ANSWERING
from bert_keras.errors import InputError
from bert_keras.options import check_choice, check_least
from bert_keras.storage import StrPath, json_object, write_text
from bert_keras.tasks.squad.predictions import Prediction, predicted_answers
from bert_keras.tasks.squad.questions import (
    Question,
    read_questions,
    without_misplaced,
)
from bert_keras.tasks.squad.scoring import scores_of_answers, scores_of_answers_or_none
from bert_keras.tasks.squad.windows import NUM_SPECIALS, Windows, windows_over
from bert_keras.tasks.task import Outputs, Task, data_files, needs_labels
from bert_keras.tasks.tfds import is_tfds
from bert_keras.text.tokenizer import TextTokenizer


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
    input_names: ClassVar[tuple[str, ...]] = ("question", "context")
    is_metric_percentage: ClassVar[bool] = True  # as the official scorer prints it
    prediction_file: ClassVar[str] = "predictions.json"

    def __post_init__(self):
        check_choice(self, "version", ("1.1", "2.0"))
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

    def files(self, data: StrPath) -> dict[str, str]:
        if is_tfds(data):
            return {"train": f"{data}:train", "dev": f"{data}:validation"}
        names = {
            split: (f"{split}-v{self.version}.json", f"{split}.json")
            for split in ("train", "dev", "test")
        }
        return data_files(data, names=names)

    def read(self, path: StrPath, *, split: str = "train") -> list[Question]:
        """Read a file in SQuAD's format, or a split such as tfds:squad/v2.0:train.

        Questions of "train" none of whose answers is at its position are left out, and listed on
        stderr.
        """
        path = os.fspath(path)
        questions = read_questions(path)
        if split == "train":
            questions = without_misplaced(questions, path=path)
        if needs_labels(split):
            self.check_labels(questions)
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
            if each.is_impossible and not self.allows_no_answer:
                raise InputError(
                    f"{each.place} is_impossible; in SQuAD 1.1 each question has an answer: this "
                    "is a task for squad2"
                )
            if not each.answers and not each.is_impossible:
                raise InputError(
                    f"{each.place} has no answers; expected at least one"
                    + (', or "is_impossible": true' if self.allows_no_answer else "")
                    + "; without answers there is nothing to score, use predict"
                )

    def score(
        self, examples: Sequence[Question], predictions: Sequence[Prediction | None]
    ) -> dict[str, float]:
        self.check_labels(examples)
        if self.allows_no_answer:
            return scores_of_answers_or_none(examples, predictions)
        return scores_of_answers(examples, predictions)

    def write_predictions(
        self, path: StrPath, examples: Sequence[Question], predictions: Sequence[Prediction]
    ) -> None:
        """Write {id: text}, and files beside it with n-best lists and null odds where predictions
        have them."""
        path, pairs = Path(path), list(zip(examples, predictions, strict=True))
        nbest = {question.id: [*map(asdict, each.candidates)] for question, each in pairs}
        odds = {question.id: each.null_odds for question, each in pairs}
        _write_json(path, {question.id: each.text for question, each in pairs})
        if all(nbest.values()):
            _write_json(path.with_name(f"nbest_{path.name}"), nbest)  # as run_squad.py
        if None not in odds.values():
            _write_json(_null_odds_path(path), odds)

    def read_predictions(
        self, path: StrPath, examples: Sequence[Question]
    ) -> list[Prediction | None]:
        """Read predictions, with the null odds of the file beside them, if there is one; None for a
        question without a prediction.

        Raises InputError where no question has a prediction, or one has no odds where others have.
        """
        texts, beside = json_object(path), _null_odds_path(Path(path))
        odds = json_object(beside) if beside.is_file() else None
        found: dict[str, Prediction] = {}
        for identity in (question.id for question in examples if question.id in texts):
            text, null_odds = texts[identity], odds.get(identity) if odds else None
            if not isinstance(text, str):
                raise InputError(f"{path}: the prediction of {identity} is no text")
            if odds is not None and type(null_odds) not in (int, float):
                raise InputError(
                    f"{beside}: expected a number for {identity}, as for all in {path}"
                )
            found[identity] = Prediction(text, null_odds)
        missing = [question.id for question in examples if question.id not in found]
        if not found:
            raise InputError(
                f"{path} has none of the {len(examples)} questions; it begins with "
                f"{next(iter(texts), 'nothing')!r}, the questions with {missing[0]!r}"
            )
        if missing:
            print(
                f"{path} has no prediction for {len(missing)} of {len(examples)} questions, such "
                f"as {missing[0]}; they score 0",
                file=sys.stderr,
            )
        return [found.get(question.id) for question in examples]


def _null_odds_path(path: Path) -> Path:
    """null_odds.json beside predictions.json, as run_squad.py names it."""
    part = "predictions"
    name = path.name.replace(part, "null_odds") if part in path.name else f"null_odds_{path.name}"
    return path.with_name(name)


def _write_json(path: Path, values: dict) -> None:
    write_text(path, json.dumps(values, indent=4) + "\n")


SQUAD_TASKS = {
    "squad1": SquadTask(name="squad1", version="1.1"),
    "squad2": SquadTask(name="squad2", version="2.0"),
}
