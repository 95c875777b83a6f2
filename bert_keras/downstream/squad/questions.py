"""Reads questions from files in SQuAD's format and from TensorFlow Datasets."""

import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bert_keras.downstream.table import is_tfds, parse_json, tfds_rows
from bert_keras.errors import InputError, listed
from bert_keras.files import existing_file
from bert_keras.kinds.windows import Answer, Question


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
            f"expected context and qas with {id_name}, question and answers"
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
    if len(usable) < len(questions):
        skipped = [each.misplaced for each in questions if not (each.is_impossible or each.target)]
        report = (
            f"{len(skipped)} of {len(questions)} questions of {path} have no answer that is in "
        )
        report += f"the context at answer_start: {listed(skipped, most=5)}"
        if not usable:
            raise InputError(report)
        print(f"not used for training: {report}", file=sys.stderr)
    return usable
