"""Reads and checks questions from files in SQuAD's format and from TensorFlow Datasets."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bert_keras.downstream.table import json_values
from bert_keras.downstream.tfds import is_tfds, tfds_rows
from bert_keras.errors import InputError, check, listed
from bert_keras.files import existing_file
from bert_keras.text.encode import SURROGATE

_TYPES = {dict: "an object", list: "a list", str: "a text", int: "an integer", bool: "a boolean"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of an annotator."""

    text: str
    start: int  # index of its first character in the context


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a context."""

    id: str
    question: str
    context: str  # the passage that may contain the answer
    answers: tuple[Answer, ...] = ()  # of all annotators
    is_impossible: bool = False  # whether the context contains no answer
    location: str = ""  # where it was read, for error messages

    @property
    def target(self) -> Answer | None:
        """The first answer whose text is in the context at its `start`; None without one.

        The case may differ, because files made from TriviaQA have answers in lower case.
        """
        for answer in self.answers:
            text = self.context[answer.start :][: len(answer.text)]
            is_equal = answer.start >= 0 and text.lower() == answer.text.lower()
            if is_equal and answer.text.strip():
                return answer
        return None


def read_questions(path: str, *, id_name: str = "id") -> list[Question]:
    """Reads a file in SQuAD's format, or a TFDS split such as tfds:squad/v2.0:train.

    Raises:
        InputError: The file is not in SQuAD's format, it has no questions, or an id occurs twice.
    """
    questions: dict[str, Question] = {}
    for location, paragraph, fields in _builder_rows(path) if is_tfds(path) else _json_rows(path):
        identity = _value(location, fields, id_name, str)
        location = f"{location} (id {identity})"
        if identity in questions:
            raise InputError(f"{location} has the id of {questions[identity].location}")
        context = _value(location, paragraph, "context", str)
        check(context.strip(), f"{location} has an empty context; expected a passage")
        answers = _value(location, fields, "answers", list, [])
        is_impossible = _value(location, fields, "is_impossible", bool, False)
        if is_impossible and answers:
            raise InputError(f"{location} has answers and is_impossible; expected one of them")
        questions[identity] = Question(
            id=identity,
            question=_value(location, fields, "question", str),
            context=context,
            answers=tuple(
                Answer(
                    _value(location, each, "text", str), _value(location, each, "answer_start", int)
                )
                for each in answers
            ),
            is_impossible=is_impossible,
            location=location,
        )
    check(questions, f"{path} has no questions; expected at least one")
    return list(questions.values())


def _json_rows(path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields the location, the paragraph object and the question object of each item of "qas".

    The file is {"data": [{"paragraphs": [{"context": ..., "qas": [...]}]}]}.
    """
    values = json_values(existing_file(path).read_bytes(), location=path)
    for article_location, article in _items(path, values, "data"):
        for paragraph_location, paragraph in _items(article_location, article, "paragraphs"):
            for location, fields in _items(paragraph_location, paragraph, "qas"):
                yield location, paragraph, fields


def _items(location: str, fields: Any, name: str) -> Iterator[tuple[str, Any]]:
    for index, item in enumerate(_value(location, fields, name, list)):
        yield f"{location}, {name}[{index}]", item


def _builder_rows(path: str) -> Iterator[tuple[str, dict, dict]]:
    """Same as `_json_rows`, but for a TFDS split, whose answers are a dict of lists."""
    for number, row in enumerate(tfds_rows(path), start=1):
        columns = _value(f"{path}, row {number}", row, "answers", dict)
        pairs = zip(columns["text"], columns["answer_start"], strict=True)
        answers = [{"text": text, "answer_start": start} for text, start in pairs]
        yield f"{path}, row {number}", row, {**row, "answers": answers}


def without_misplaced(questions: Sequence[Question], *, path: str) -> list[Question]:
    """Returns the questions that are impossible or have an answer at its position.

    The other questions are listed on stderr; `path` is their file.
    """
    usable = [each for each in questions if each.is_impossible or each.target]
    if len(usable) < len(questions):
        skipped = [each.location for each in questions if not (each.is_impossible or each.target)]
        what = f"{len(skipped)} of {len(questions)} questions of {path} have no answer that is in "
        what += f"the context at answer_start: {listed(skipped, most=5)}"
        check(usable, what)
        print(f"not used for training: {what}", file=sys.stderr)
    return usable


def _value(location: str, fields: Any, name: str, kind: type, default: Any = None) -> Any:
    """Returns a field of an object; raises InputError if it is missing or has another type."""
    value = fields.get(name) if isinstance(fields, dict) else None
    value = default if value is None else value
    if type(value) is not kind or (kind is str and SURROGATE.search(value)):
        shown = json.dumps(value)[:40]
        raise InputError(f"{location} has {shown} as {name!r}; expected {_TYPES[kind]}")
    return value
