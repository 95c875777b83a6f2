"""Reads and checks questions from files in SQuAD's format and from TensorFlow Datasets."""

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bert_keras.errors import InputError
from bert_keras.storage import existing_file
from bert_keras.tasks.tfds import is_tfds, tfds_rows

MOST_LISTED = 20  # maximum number of skipped questions that a message lists

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
    place: str = ""  # where it was read, for error messages

    @property
    def target(self) -> Answer | None:
        """The first answer whose text is in the context at its `start`; None without one.

        The case may differ, because files made from TriviaQA have answers in lower case.
        """
        for answer in self.answers:
            found = self.context[answer.start :][: len(answer.text)]
            is_there = answer.start >= 0 and found.lower() == answer.text.lower()
            if is_there and answer.text.strip():
                return answer
        return None


def read_questions(path: str) -> list[Question]:
    """Reads a file in SQuAD's format, or a TFDS split such as tfds:squad/v2.0:train.

    Raises:
        InputError: The file is not in SQuAD's format, it has no questions, or an id occurs twice;
            the message names the location.
    """
    questions: list[Question] = []
    places: dict[str, str] = {}
    for place, paragraph, fields in _builder_rows(path) if is_tfds(path) else _json_rows(path):
        identity = _value(fields, "id", str, place=place)
        if identity in places:
            raise InputError(
                f"{place} has the id {identity!r}, as {places[identity]} has; expected each once"
            )
        places[identity] = place
        place = f"{place} (id {identity})"
        context = _value(paragraph, "context", str, place=place)
        if not context.strip():
            raise InputError(f"{place} has an empty context; expected a passage")
        answers = tuple(
            _answer(each, place=place) for each in _value(fields, "answers", list, [], place=place)
        )
        is_impossible = _value(fields, "is_impossible", bool, False, place=place)
        if is_impossible and answers:
            raise InputError(f"{place} is_impossible, yet has answers; expected one or the other")
        questions.append(
            Question(
                id=identity,
                question=_value(fields, "question", str, place=place),
                context=context,
                answers=answers,
                is_impossible=is_impossible,
                place=place,
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
        raise InputError(f"{path} is not whole JSON in SQuAD's format: {error}") from error
    for in_article, article in _items(values, "data", place=f"{path}, "):
        for in_paragraph, paragraph in _items(article, "paragraphs", place=f"{in_article}."):
            for in_fields, fields in _items(paragraph, "qas", place=f"{in_paragraph}."):
                yield in_fields, paragraph, fields


def _builder_rows(path: str) -> Iterator[tuple[str, dict, dict]]:
    """Same as `_json_rows`, but for a split of a TFDS builder with the features of `squad`.

    The answers of such a builder are a dict of lists.
    """
    for number, row in enumerate(tfds_rows(path), start=1):
        where = f"{path}, row {number}"
        columns = _value(row, "answers", dict, place=where)
        texts, starts = (
            _value(columns, name, list, place=f"{where}, answers")
            for name in ("text", "answer_start")
        )
        answers = [
            {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
        ]
        yield where, row, {**row, "answers": answers}


def without_misplaced(questions: Sequence[Question], *, path: str) -> list[Question]:
    """Returns the questions without those that have no answer at its position.

    Impossible questions are kept. The skipped questions are listed on stderr.

    Raises:
        InputError: No question is left; `path` is the file that the message names.
    """
    kept = [each for each in questions if each.is_impossible or each.target is not None]
    faults = [_misplaced(each) for each in questions if not each.is_impossible and not each.target]
    if not kept:
        raise InputError(f"{path} has no answer that stands where it says; first {faults[0]}")
    if faults:
        more = len(faults) - MOST_LISTED
        print(
            f"{path}: {len(faults)} of {len(questions)} questions are left out of training, for "
            "their answers do not stand in the context at their answer_start:",
            *faults[:MOST_LISTED],
            *([f"and {more} more"] if more > 0 else []),
            sep="\n  ",
            file=sys.stderr,
        )
    return kept


def _misplaced(question: Question) -> str:
    if not question.answers:
        return f"{question.place}: no answer"
    answer = question.answers[0]
    found = question.context[max(0, answer.start) :][: len(answer.text)]
    return (
        f"{question.place}: the answer {answer.text!r} is not at {answer.start}, where {found!r} is"
    )


def _answer(fields, *, place: str) -> Answer:
    place = f"{place}, an answer"
    return Answer(
        _value(fields, "text", str, place=place), _value(fields, "answer_start", int, place=place)
    )


def _items(fields, name: str, *, place: str) -> Iterator[tuple[str, Any]]:
    """Yields the location and the value of each item of a list."""
    for number, item in enumerate(_value(fields, name, list, place=place.rstrip("., "))):
        yield f"{place}{name}[{number}]", item


def _value(fields, name: str, kind: type, default=None, *, place: str):
    """Returns a field of an object; raises InputError if it is missing or has another type."""
    if not isinstance(fields, dict):
        raise InputError(f"{place} is {_shown(fields)}; expected an object with {name!r}")
    value = fields.get(name, default)
    if value is None:
        raise InputError(f"{place} lacks {name!r}; it has {', '.join(map(str, fields))}")
    if type(value) is not kind:
        raise InputError(f"{place}: {name!r} is {_shown(value)}; expected {_TYPES[kind]}")
    if kind is str:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{place}: {name!r} holds half a character at {error.start}; expected Unicode"
            ) from error
    return value


def _shown(value) -> str:
    return textwrap.shorten(json.dumps(value), 40)
