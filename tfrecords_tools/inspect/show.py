"""Formats records as text, with the original tokens of their masked positions."""

import os
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, TextIO

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE, WEIGHTS_FEATURE
from bert_keras.errors import InputError, counted, printable
from bert_keras.text.fast_tokenizer import readable_tokens
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.verify import every_file, is_labelled, verified_batches
from tfrecords_tools.manifest import NEXT_SENTENCE, label_names

WIDTH = 100
# SGR codes by the input at a predicted position: bold and a colour that is legible on dark and on
# light backgrounds.
MASKED, REPLACED, KEPT = "1;36", "1;31", "1;32"
SPECIAL, UNKNOWN = "2", "1;35"


class PrintedToken(NamedTuple):
    """A token as it is printed."""

    text: str
    coloured: str  # the text, with escape sequences if they are wanted
    is_continued: bool  # whether it continues a word


def record_texts(
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
        raise InputError(f"start is {start}; expected the number of a record, at least 1")
    if count < 1:
        raise InputError(f"count is {count}; expected at least 1")
    files = every_file(records)
    schema, labels = common_schema(files), label_names(files[0])

    def texts() -> Iterator[str]:
        num_preceding = 0
        for file in files:
            for first, features in verified_batches(file, schema=schema, vocabulary=vocabulary):
                size = len(features["input_ids"])
                for row in range(max(start - 1 - num_preceding, 0), size):
                    record = {name: values[row] for name, values in features.items()}
                    text = record_text(
                        record,
                        vocabulary=vocabulary,
                        labels=labels,
                        is_coloured=is_coloured,
                        width=width,
                    )
                    yield f"{printable(os.path.basename(file))}, record {first + row + 1}: {text}"
                num_preceding += size
        if num_preceding < start:
            raise InputError(f"start is {start}, but the number of records is {num_preceding:,}")

    marks = {
        "{[MASK]=original} masked": MASKED,
        "{other=original} replaced": REPLACED,
        "{original=original} kept": KEPT,
    }
    legend = ", ".join(
        _coloured(text, colour if is_coloured else "") for text, colour in marks.items()
    )
    return chain([legend] if schema.max_predictions else [], islice(texts(), count))


def has_colours(stream: TextIO) -> bool:
    """Returns whether a stream is a terminal with colours and NO_COLOR is not set."""
    return (
        stream.isatty()
        and not os.environ.get("NO_COLOR")  # no-color.org: set and not empty
        and os.environ.get("TERM") != "dumb"
    )


def record_text(
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
    tokens = _printed_tokens(record, length, vocabulary, is_coloured=is_coloured)
    names = []  # of the labels that are used
    if LABEL_FEATURE in record:
        names = [labels[label] for label in record[LABEL_FEATURE][is_labelled(record)]]
    if "sequence_ids" not in record:
        head = names[0] if names else f"{length} tokens"
        return "\n".join([head, *_lines(tokens, indent="  ", width=width)])
    sequence_ids = record["sequence_ids"][:length]
    num_sequences = int(sequence_ids.max(initial=0))
    text = [counted(num_sequences, "sequence")]
    for number in range(1, num_sequences + 1):
        positions = np.nonzero(sequence_ids == number)[0]
        label = f", {names[number - 1]}" if names else ""
        text.append(f"  sequence {number}: {len(positions)} tokens{label}")
        text += _lines([tokens[position] for position in positions], indent="    ", width=width)
    return "\n".join(text)


def _printed_tokens(
    record: dict[str, np.ndarray], length: int, vocabulary: Vocabulary, *, is_coloured: bool
) -> list[PrintedToken]:
    specials = {vocabulary.cls_id: SPECIAL, vocabulary.sep_id: SPECIAL, vocabulary.unk_id: UNKNOWN}
    ids = record["input_ids"][:length].tolist()
    original_ids = {}
    if WEIGHTS_FEATURE in record:
        is_counted = record[WEIGHTS_FEATURE] > 0
        positions = record["masked_lm_positions"][is_counted].tolist()
        labels = record["masked_lm_ids"][is_counted].tolist()
        original_ids = dict(zip(positions, labels, strict=True))
    tokens = readable_tokens(vocabulary)
    printed, can_continue = [], False
    for position, token_id in enumerate(ids):
        token = tokens[token_id]
        original_id = original_ids.get(position, token_id)
        is_continued = can_continue and tokens[original_id].startswith("##")
        if position in original_ids:
            colour = {vocabulary.mask_id: MASKED, original_id: KEPT}.get(token_id, REPLACED)
            text = f"{{{token}={tokens[original_id]}}}"
        else:
            colour = specials.get(token_id, "")
            is_joined = is_continued or vocabulary.rules  # a text without a blank starts with "##"
            text = token.removeprefix("##") if is_joined else token
        text = printable(text)
        coloured = _coloured(text, colour if is_coloured else "")
        printed.append(PrintedToken(text, coloured, is_continued))
        can_continue = specials.get(token_id) != SPECIAL
    return printed


def _lines(tokens: Sequence[PrintedToken], *, indent: str, width: int) -> list[str]:
    """Joins tokens to words and words to lines of at most `width` characters."""
    words: list[list[PrintedToken]] = []
    for token in tokens:
        if token.is_continued:
            words[-1].append(token)
        else:
            words.append([token])
    lines, space = [], 0
    for word in words:
        size = sum(len(token.text) for token in word)
        if size > space:
            lines.append([])
            space = width - len(indent)
        lines[-1].append("".join(token.coloured for token in word))
        space -= size + 1
    return [indent + " ".join(line) for line in lines]


def _coloured(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text
