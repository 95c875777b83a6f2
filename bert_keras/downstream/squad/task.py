"""Defines the SQuAD tasks, which find the answer of a question in a context, and reads files."""

import dataclasses
import json
import operator
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from bert_keras.downstream.squad.answers import squad1_scores, squad2_scores
from bert_keras.downstream.table import is_tfds, parse_json, tfds_rows
from bert_keras.downstream.task import FileNames, Outputs, Scores, Task, needs_labels
from bert_keras.errors import InputError, listed
from bert_keras.fields import setting
from bert_keras.files import StrPath, existing_file, is_stdout, write_text
from bert_keras.kinds.span import Prediction, SpanSettings, predict_answers, span_losses
from bert_keras.kinds.windows import Answer, Question, QuestionWindows
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
    question_metric: ClassVar[str] = "f1"  # the score of a single question, which reports show
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

        Where "no answer" is predicted, the best answer takes its place, because a higher threshold
        would choose it. If "no answer" is best for every question, the threshold is below all null
        odds (0.0 in the official script).
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


SQUAD_TASKS = {
    "squad1": SquadTask(name="squad1", version="1.1"),
    "squad2": SquadTask(name="squad2", version="2.0"),
}


def read_questions(path: str, *, id_name: str = "id") -> list[Question]:
    """Reads a file in SQuAD's format, or a TFDS split such as tfds:squad/v2.0:train."""
    questions: dict[str, Question] = {}
    location = path
    try:
        for location, context, fields, answers in _rows(path):
            identity, question = fields[id_name], fields["question"]
            is_impossible = bool(fields.get("is_impossible"))
            location = f"{location} (id {identity})"
            if identity in questions or (is_impossible and answers):
                raise InputError(f"{location} repeats an id, or has answers but is_impossible")
            spans = [Answer(each["text"], operator.index(each["answer_start"])) for each in answers]
            questions[identity] = Question(
                id=identity,
                question=question,
                context=context,
                answers=tuple(spans),
                is_impossible=is_impossible,
                location=location,
            )
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"{location} is not in SQuAD's format ({type(error).__name__} {error}); "
            f"expected context, qas of {id_name}, question, answers of text and whole answer_start"
        ) from error
    if not questions:
        raise InputError(f"{path} has no questions; expected at least one")
    return list(questions.values())


def _rows(path: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yields the location, the context, the fields and the answers of each question."""
    if is_tfds(path):  # in TFDS, the answers are a dict of lists
        for row_number, row in enumerate(tfds_rows(path), start=1):
            columns = row["answers"]
            pairs = zip(columns["text"], columns["answer_start"], strict=True)
            answers = [{"text": text, "answer_start": start} for text, start in pairs]
            yield f"{path}, row {row_number}", row["context"], row, answers
        return
    values = parse_json(existing_file(path).read_bytes(), location=path)
    for i, article in enumerate(values["data"]):
        for j, paragraph in enumerate(article["paragraphs"]):
            for k, fields in enumerate(paragraph["qas"]):
                location = f"{path}, data[{i}], paragraphs[{j}], qas[{k}]"
                yield location, paragraph["context"], fields, fields.get("answers") or []


def drop_misplaced(questions: Sequence[Question], *, path: str) -> list[Question]:
    """Drops and lists the questions that should have an answer but have none at its position."""
    usable = [each for each in questions if each.is_impossible or each.target]
    misplaced = [each.misplaced for each in questions if not (each.is_impossible or each.target)]
    if misplaced:
        counts = f"{len(misplaced)} of {len(questions)} questions of {path}"
        places = listed(misplaced, most=5)
        report = f"{counts} have no answer that is in the context at answer_start: {places}"
        if not usable:
            raise InputError(report)
        print(f"not used for training: {report}", file=sys.stderr)
    return usable
