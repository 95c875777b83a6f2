"""Reads files of words and tags, one word a line, as CoNLL's shared tasks have them."""

import re
from dataclasses import dataclass
from itertools import chain
from typing import cast

from bert_keras.errors import InputError
from bert_keras.storage import StrPath, text_lines
from bert_keras.tasks.tfds import tfds_rows

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"

_COLUMN = re.compile(r"[^ \t]+")
_TAG = re.compile(r"O|[BI]-.+")


@dataclass(frozen=True)
class Sentence:
    """One sentence. `tags` is None where the file has words alone.

    `document` counts the -DOCSTART- lines before the sentence: 0 everywhere in a file without.
    `line` is that of its first word; the others follow on the next lines.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    document: int
    line: int


def read_conll(path: StrPath) -> list[Sentence]:
    """The sentences of a file whose lines are a word, maybe other columns, and a tag.

    Columns are parted by spaces or tabs; a line without any ends the sentence. Tags are O, B-TYPE
    or I-TYPE, whether they mean IOB1 or BIO2. A file of one column has no tags. -DOCSTART- lines
    are no words: they begin a document. Raises InputError, naming the line, for another number of
    columns than on the lines before, another form of tag, and where there is no sentence.
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
                    f"{path}, line {line} has {len(columns)} columns; line {first_line} has {width}"
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
        raise InputError(f"{path} holds no sentence; expected lines of a word and its tag")
    return sentences


def read_tfds(place: str) -> list[Sentence]:
    """The sentences of a split of a TFDS builder with `tokens` and `ner`, as `conll2003` has.

    It does not tell the documents. `line` counts its rows; rows without words are left out.
    """
    sentences = []
    for number, row in enumerate(tfds_rows(place), start=1):
        if not {"tokens", "ner"} <= row.keys():
            raise InputError(f"{place} has the columns {', '.join(row)}; expected tokens and ner")
        words, tags = (cast(list[str], row[name]) for name in ("tokens", "ner"))
        if words:
            sentences.append(Sentence(tuple(words), tuple(tags), 0, number))
    return sentences
