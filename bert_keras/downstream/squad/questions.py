"""Reads and checks questions from files in SQuAD's format and from TensorFlow Datasets."""

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bert_keras.downstream.tfds import is_tfds, tfds_rows
from bert_keras.errors import InputError
from bert_keras.files import existing_file

MAX_LISTED = 20  # maximum number of skipped questions that a message lists

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

    Args:
        path: The file or the split.
        id_name: The name of the field with the id of a question.

    Raises:
        InputError: The file is not in SQuAD's format, it has no questions, or an id occurs twice;
            the message names the location.
    """
    questions: list[Question] = []
    locations: dict[str, str] = {}
    for location, paragraph, fields in _builder_rows(path) if is_tfds(path) else _json_rows(path):
        identity = _value(location, fields, id_name, str)
        if identity in locations:
            raise InputError(
                f"{location} has the id {identity!r} of {locations[identity]}; expected a "
                "different id for each question"
            )
        locations[identity] = location
        location = f"{location} (id {identity})"
        context = _value(location, paragraph, "context", str)
        if not context.strip():
            raise InputError(f"{location} has an empty context; expected a passage")
        answers = _value(location, fields, "answers", list, [])
        is_impossible = _value(location, fields, "is_impossible", bool, False)
        if is_impossible and answers:
            raise InputError(f"{location} has answers and is_impossible; expected one of them")
        questions.append(
            Question(
                id=identity,
                question=_value(location, fields, "question", str),
                context=context,
                answers=tuple(_answer(f"{location}, an answer", each) for each in answers),
                is_impossible=is_impossible,
                location=location,
            )
        )
    if not questions:
        raise InputError(f"{path} has no questions; expected at least one")
    return questions


def _json_rows(path: str) -> Iterator[tuple[str, dict, dict]]:
    """Yields the location, the paragraph object and the question object of each item of "qas".

    The file is {"data": [{"paragraphs": [{"context": ..., "qas": [...]}]}]}.
    """
    content = existing_file(path).read_bytes()
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON in SQuAD's format: {error}") from error
    for article_location, article in _items(path, values, "data", separator=", "):
        for paragraph_location, paragraph in _items(article_location, article, "paragraphs"):
            for location, fields in _items(paragraph_location, paragraph, "qas"):
                yield location, paragraph, fields


def _builder_rows(path: str) -> Iterator[tuple[str, dict, dict]]:
    """Same as `_json_rows`, but for a split of a TFDS builder with the features of `squad`.

    The answers of such a builder are a dict of lists.
    """
    for number, row in enumerate(tfds_rows(path), start=1):
        location = f"{path}, row {number}"
        columns = _value(location, row, "answers", dict)
        names = ("text", "answer_start")
        lists = [_value(f"{location}, answers", columns, name, list) for name in names]
        answers = [dict(zip(names, values, strict=True)) for values in zip(*lists, strict=True)]
        yield location, row, {**row, "answers": answers}


def without_misplaced(questions: Sequence[Question], *, path: str) -> list[Question]:
    """Returns the questions without those that have no answer at its position.

    Impossible questions are kept. The skipped questions are listed on stderr.

    Raises:
        InputError: No question remains; `path` is the file that the message names.
    """
    usable = [each for each in questions if each.is_impossible or each.target]
    problems = [_problem(each) for each in questions if not (each.is_impossible or each.target)]
    if not usable:
        raise InputError(
            f"{path} has no answer that is in its context at answer_start; the first question is "
            f"{problems[0]}"
        )
    if problems:
        more = len(problems) - MAX_LISTED
        print(
            f"{path}: {len(problems)} of {len(questions)} questions are not used for training, "
            "because their answers are not in the context at answer_start:",
            *problems[:MAX_LISTED],
            *([f"and {more} more"] if more > 0 else []),
            sep="\n  ",
            file=sys.stderr,
        )
    return usable


def _problem(question: Question) -> str:
    if not question.answers:
        return f"{question.location}: no answer"
    answer = question.answers[0]
    text = question.context[max(0, answer.start) :][: len(answer.text)]
    return f"{question.location}: the context has {text!r} at {answer.start}, not {answer.text!r}"


def _answer(location: str, fields) -> Answer:
    text = _value(location, fields, "text", str)
    return Answer(text, _value(location, fields, "answer_start", int))


def _items(location: str, fields, name: str, *, separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Yields the location and the value of each item of a list."""
    for index, item in enumerate(_value(location, fields, name, list)):
        yield f"{location}{separator}{name}[{index}]", item


def _value(location: str, fields, name: str, kind: type, default=None):
    """Returns a field of an object; raises InputError if it is missing or has another type."""
    if not isinstance(fields, dict):
        raise InputError(f"{location} is {_shown(fields)}; expected an object with {name!r}")
    value = fields.get(name, default)
    if value is None:
        raise InputError(f"{location} lacks {name!r}; it has {', '.join(map(str, fields))}")
    if type(value) is not kind:
        raise InputError(f"{location}: {name!r} is {_shown(value)}; expected {_TYPES[kind]}")
    if kind is str:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{location}: {name!r} has half of a surrogate pair at character {error.start}; "
                "expected valid Unicode"
            ) from error
    return value


def _shown(value) -> str:
    return textwrap.shorten(json.dumps(value), 40)
