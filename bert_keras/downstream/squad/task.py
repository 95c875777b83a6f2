"""Defines the SQuAD tasks: find the span of a context that answers a question."""

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

from bert_keras.downstream.squad.answers import squad1_scores, squad2_scores
from bert_keras.downstream.squad.questions import drop_misplaced, read_questions
from bert_keras.downstream.task import FileNames, Outputs, Scores, Task, needs_labels
from bert_keras.errors import InputError
from bert_keras.fields import setting
from bert_keras.files import StrPath, is_stdout, write_text
from bert_keras.kinds.span import Prediction, SpanSettings, predict_answers, span_losses
from bert_keras.kinds.windows import Question, QuestionWindows
from bert_keras.text.tokenizer import TextTokenizer

Predictions = Sequence[Prediction]


@dataclass(frozen=True, kw_only=True)
class SquadTask(SpanSettings, Task[Question, QuestionWindows, Prediction]):
    """SQuAD 1.1 or 2.0 (BERT paper, sections 4.2, 4.3), with defaults of BERT's run_squad.py."""

    max_length: int = setting(384, "maximum number of tokens of a window, special tokens included")

    model: ClassVar[str] = "BertQuestionAnswering"
    input_names: ClassVar[tuple[str, ...]] = ("question", "context")
    prediction_file: ClassVar[str] = "predictions.json"
    label_field: ClassVar[str] = "answers"
    score_of_one: ClassVar[str] = "f1"  # the score of a single question, which reports show
    id_name: ClassVar[str] = "id"  # the name of a question's id in the files

    def __post_init__(self):
        super().__post_init__()
        self.check_max_length(self.max_length)

    @property
    def metric(self) -> str:
        """The name of the score that chooses the best checkpoint: F1 with the best threshold."""
        return "best_f1" if self.allows_no_answer else "f1"

    @property
    def file_names(self) -> FileNames:
        end = f"-v{self.version}.json"
        return {split: (f"{split}{end}", f"{split}.json") for split in ("train", "dev", "test")}

    def read(self, path: StrPath, *, split: str = "train") -> list[Question]:
        """Reads questions; for "train", it skips those that have no answer at its position."""
        path = os.fspath(path)
        questions = read_questions(path, id_name=self.id_name)
        if split == "train":
            questions = drop_misplaced(questions, path=path)
        if needs_labels(split):
            self.check_labels(questions)
        return questions

    def encode(self, examples: Sequence[Question], tokenizer: TextTokenizer) -> QuestionWindows:
        return self.windows(examples, tokenizer, max_length=self.max_length)

    def compile_arguments(self) -> dict:
        return span_losses()

    def predictions(
        self, examples: Sequence[Question], encoded: QuestionWindows, outputs: Outputs
    ) -> list[Prediction]:
        return predict_answers([each.context for each in examples], encoded, outputs, self)

    def tuned(self, examples: Sequence[Question], predictions: Sequence[Prediction]) -> Self:
        """Returns the task with the `null_threshold` that gives these predictions the best F1.

        For predictions of "no answer", it uses the best answer, to test higher thresholds. If "no
        answer" is always best, the threshold is below all null odds (0.0 in the official script).
        """
        if not self.allows_no_answer:
            return self
        answers = [
            dataclasses.replace(each, text=next(c.text for c in each.candidates if c.text))
            for each in predictions
        ]
        scores = squad2_scores(examples, answers)
        threshold = scores["best_f1_thresh"]
        if scores["best_f1"] == scores.get("NoAns_total", 0) / scores["total"]:
            threshold = min(each.null_odds or 0.0 for each in answers) - 1.0
        return dataclasses.replace(self, null_threshold=threshold)

    def check_labels(self, examples: Sequence[Question]) -> None:
        for each in examples:
            if each.is_impossible and not self.allows_no_answer:
                raise InputError(f"{each.location} has is_impossible; use the task squad2")
        super().check_labels([each for each in examples if not each.is_impossible])

    def score(self, examples: Sequence[Question], predictions: Predictions) -> Scores:
        scores = squad2_scores if self.allows_no_answer else squad1_scores
        return scores(examples, predictions)

    def write_predictions(
        self, path: StrPath, examples: Sequence[Question], predictions: Sequence[Prediction]
    ) -> None:
        """Writes the texts by id as JSON, and beside it files of candidates and null odds."""
        path, pairs = Path(path), list(zip(examples, predictions, strict=True))
        files: dict[Path, dict] = {path: {q.id: each.text for q, each in pairs}}
        if not is_stdout(path):
            nbest = path.with_name(f"nbest_{path.name}")
            files[nbest] = {q.id: list(map(asdict, each.candidates)) for q, each in pairs}
        if self.allows_no_answer and not is_stdout(path):
            is_default = path.name == self.prediction_file  # the other names are as in run_squad.py
            odds = path.with_name("null_odds.json" if is_default else f"null_odds_{path.name}")
            files[odds] = {q.id: each.null_odds for q, each in pairs}
        for file, values in files.items():
            write_text(file, json.dumps(values, indent=4) + "\n")


_VERSIONS = {"squad1": "1.1", "squad2": "2.0"}
SQUAD_TASKS = {name: SquadTask(name=name, version=v) for name, v in _VERSIONS.items()}
