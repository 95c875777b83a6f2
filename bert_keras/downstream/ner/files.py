"""Reads files with one word and its tag per line, in the format of CoNLL's shared tasks."""

import re
from dataclasses import dataclass
from itertools import chain
from typing import cast

from bert_keras.downstream.tfds import tfds_rows
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, text_lines

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"

_COLUMN = re.compile(r"[^ \t]+")
_TAG = re.compile(r"O|[BI]-.+")


@dataclass(frozen=True)
class Sentence:
    """One sentence."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None  # one for each word; None if the file has words only
    document: int  # the number of -DOCSTART- lines before it; 0 in a file without such lines
    line: int  # of its first word; the other words follow on the next lines


def read_conll(path: StrPath) -> list[Sentence]:
    """Reads the sentences of a file in CoNLL format.

    A line has a word, optional further columns, and a tag, separated by spaces or tabs. An empty
    line ends a sentence. Tags are O, B-TYPE or I-TYPE, in the scheme IOB1 or BIO2. A file with a
    single column has no tags. A -DOCSTART- line starts a document and is not a word.

    Raises:
        InputError: The number of columns differs between lines, a tag has another form, or the file
            has no sentence; the message names the file and the line.
    """
    sentences: list[Sentence] = []
    width, first_line, document = 0, 0, 0
    rows: list[list[str]] = []
    for line, text in enumerate(chain(text_lines(path), [""]), start=1):
        columns = _COLUMN.findall(text)
        if columns and columns[0] != DOCUMENT_START:
            if not width:
                width, first_line = len(columns), line
            if len(columns) != width:
                raise InputError(
                    f"{path}, line {line} has {counted(len(columns), 'column')}; line "
                    f"{first_line} has {width}"
                )
            if width > 1 and not _TAG.fullmatch(columns[-1]):
                raise InputError(
                    f"{path}, line {line} ends in {columns[-1]!r}; expected the tag of the word, "
                    "which is O, B-TYPE or I-TYPE"
                )
            rows.append(columns)
            continue
        if rows:
            tags = tuple(row[-1] for row in rows) if width > 1 else None
            words = tuple(row[0] for row in rows)
            sentences.append(Sentence(words, tags, document, line - len(rows)))
            rows = []
        document += bool(columns)
    if not sentences:
        raise InputError(f"{path} contains no sentence; expected lines with a word and its tag")
    return sentences


def read_tfds(path: str) -> list[Sentence]:
    """Reads the sentences of a split of a TFDS builder with the features `tokens` and `ner`.

    `conll2003` is such a builder. Its rows do not name their documents, so `document` is always 0.
    `line` is the number of the row. Rows without words are skipped.

    Raises:
        InputError: The builder lacks one of the features, or `tfds_rows` cannot read it.
    """
    sentences = []
    for number, row in enumerate(tfds_rows(path), start=1):
        if not {"tokens", "ner"} <= row.keys():
            raise InputError(f"{path} has the columns {', '.join(row)}; expected tokens and ner")
        words, tags = (cast(list[str], row[name]) for name in ("tokens", "ner"))
        if words:
            sentences.append(Sentence(tuple(words), tuple(tags), 0, number))
    return sentences
