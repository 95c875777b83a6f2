"""Formats records as text, with the original tokens of their masked positions."""

import os
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, TextIO

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE, WEIGHTS_FEATURE
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import legible_pieces
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.verify import every_file, is_labelled, verified_batches
from tfrecords_tools.manifest import NEXT_SENTENCE, label_words

WIDTH = 100
# SGR codes by the input at a predicted position: bold and a colour that is legible on dark and on
# light backgrounds.
MASKED, REPLACED, KEPT = "1;36", "1;31", "1;32"
SPECIAL, UNKNOWN = "2", "1;35"


class Part(NamedTuple):
    """A token as it is printed."""

    text: str
    coloured: str  # the text, with escape sequences if they are wanted
    is_continued: bool  # whether it continues a word


def shown(
    records: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    vocabulary: Vocabulary,
    count: int,
    start: int = 1,
    is_coloured: bool = False,
    width: int = WIDTH,
) -> Iterator[str]:
    """Yields the text of records; a predicted token is printed as {input=original}.

    If the records are masked, the first text explains these marks.

    Args:
        records: A folder, a glob pattern, a file, or a sequence of these.
        vocabulary: The vocabulary of the records.
        count: The number of records.
        start: The first record; records are numbered from 1 over all files.
        is_coloured: Adds escape sequences for colours.
        width: The number of characters of a line.

    Raises:
        InputError: There is no such record, or a record is wrong.
    """
    if start < 1:
        raise InputError(f"record {start} was asked for; expected 1 or more")
    if count < 1:
        raise InputError(f"{count} records were asked for; expected 1 or more")
    files = every_file(records)
    schema, labels = common_schema(files), label_words(files[0])

    def texts() -> Iterator[str]:
        before = 0
        for file in files:
            for first, features in verified_batches(file, schema=schema, vocabulary=vocabulary):
                size = len(features["input_ids"])
                for row in range(max(start - 1 - before, 0), size):
                    record = {name: values[row] for name, values in features.items()}
                    text = text_of(
                        record,
                        vocabulary=vocabulary,
                        labels=labels,
                        is_coloured=is_coloured,
                        width=width,
                    )
                    yield f"{os.path.basename(file)}, record {first + row + 1}: {text}"
                before += size
        if before < start:
            raise InputError(f"record {start} was asked for; there are {before:,}")

    marks = {
        "{[MASK]=answer} masked": MASKED,
        "{other=answer} replaced": REPLACED,
        "{answer=answer} kept": KEPT,
    }
    legend = ", ".join(
        _painted(text, colour if is_coloured else "") for text, colour in marks.items()
    )
    return chain([legend] if schema.max_predictions else [], islice(texts(), count))


def takes_colour(stream: TextIO) -> bool:
    """Returns whether a stream is a terminal with colours and NO_COLOR is not set."""
    return (
        stream.isatty()
        and not os.environ.get("NO_COLOR")  # no-color.org: any text but the empty one
        and os.environ.get("TERM") != "dumb"
    )


def text_of(
    record: dict[str, np.ndarray],
    *,
    vocabulary: Vocabulary,
    labels: tuple[str, str] = NEXT_SENTENCE,
    is_coloured: bool = False,
    width: int = WIDTH,
) -> str:
    """Formats one record, features [n]: its label, then the words, wrapped to `width`.

    The sequences of a packed record are printed one below the other.
    """
    length = int(record["input_mask"].sum())
    parts = _parts(record, length, vocabulary, is_coloured=is_coloured)
    own_labels = _labels(record, labels)
    if "sequence_ids" not in record:
        head = own_labels[0] if own_labels else f"{length} pieces"
        return "\n".join([head, *_lines(parts, indent="  ", width=width)])
    sequence_ids = record["sequence_ids"][:length]
    num_sequences = int(sequence_ids.max(initial=0))
    text = [f"{num_sequences} sequence{'s' * (num_sequences != 1)}"]
    for number in range(1, num_sequences + 1):
        own = np.nonzero(sequence_ids == number)[0]
        label = f", {own_labels[number - 1]}" if own_labels else ""
        text.append(f"  sequence {number}: {len(own)} pieces{label}")
        text += _lines([parts[place] for place in own], indent="    ", width=width)
    return "\n".join(text)


def _labels(record: dict[str, np.ndarray], words: tuple[str, str]) -> list[str]:
    """Returns the names of the labels of a record; unused slots have none."""
    if LABEL_FEATURE not in record:
        return []
    return [words[label] for label in record[LABEL_FEATURE][is_labelled(record)]]


def _parts(
    record: dict[str, np.ndarray], length: int, vocabulary: Vocabulary, *, is_coloured: bool
) -> list[Part]:
    specials = {vocabulary.cls_id: SPECIAL, vocabulary.sep_id: SPECIAL, vocabulary.unk_id: UNKNOWN}
    ids = record["input_ids"][:length].tolist()
    answers = {}
    if WEIGHTS_FEATURE in record:
        is_counted = record[WEIGHTS_FEATURE] > 0
        positions = record["masked_lm_positions"][is_counted].tolist()
        answers = dict(zip(positions, record["masked_lm_ids"][is_counted].tolist(), strict=True))
    pieces = legible_pieces(vocabulary)
    parts, can_continue = [], False
    for position, number in enumerate(ids):
        piece = pieces[number]
        answer = pieces[answers.get(position, number)]
        is_continued = can_continue and answer.startswith("##")
        if position in answers:
            colour = {vocabulary.mask_id: MASKED, answers[position]: KEPT}.get(number, REPLACED)
            text = f"{{{piece}={answer}}}"
        else:
            colour = specials.get(number, "")
            is_joined = is_continued or vocabulary.rules  # a text without a blank begins with "##"
            text = piece.removeprefix("##") if is_joined else piece
        parts.append(Part(text, _painted(text, colour if is_coloured else ""), is_continued))
        can_continue = specials.get(number) != SPECIAL
    return parts


def _lines(parts: Sequence[Part], *, indent: str, width: int) -> list[str]:
    """Joins tokens to words and words to lines of at most `width` characters."""
    words: list[list[Part]] = []
    for part in parts:
        if part.is_continued:
            words[-1].append(part)
        else:
            words.append([part])
    lines, room = [], 0
    for word in words:
        size = sum(len(part.text) for part in word)
        if size > room:
            lines.append([])
            room = width - len(indent)
        lines[-1].append("".join(part.coloured for part in word))
        room -= size + 1
    return [indent + " ".join(line) for line in lines]


def _painted(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text
