"""Reads the text of files in parts: plain text, wikiextractor output and JSON lines.

A reader yields stripped lines; "" ends a document. A document belongs to the part in which it
begins, so adjacent parts contain every document once.
"""

import contextlib
import html
import io
import json
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from bert_keras.errors import InputError, quoted
from bert_keras.files import open_file

BLOCK = 1 << 18  # bytes read at once
_NOUNS = {"parquet": "row", "tfds": "example"}  # by the kind of a file; others have lines
Item = TypeVar("Item")
# A document begins at the end of each match. Some documents begin elsewhere: a line of more than 64
# blanks also separates documents, but is not matched.
DOCUMENT_STARTS = {
    "text": re.compile(rb"\n(?=([ \t\r]{0,64}\n))"),
    "wikiextractor": re.compile(rb"\n()(?=<doc id=)"),
    "jsonl": re.compile(rb"\n()"),
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_MATCH = 80  # bytes; at least the length of a match with its lookahead
_HEAD = 1 << 16  # bytes that are read to recognize a format
_JSON_NAME = re.compile(r"\.(json|jsonl|ndjson|jsonlines)(\.|$)", re.I)
_JSON_OBJECT = re.compile(rb'\{\s*"[^"]*"\s*:')
_TITLE = re.compile(r'title="(.*)"')


def compression_of(path: str) -> str | None:
    """Returns fsspec's name of the compression that the extension of a path states, or None."""
    from fsspec.utils import infer_compression

    return infer_compression(path)


@contextlib.contextmanager
def open_text(path: str) -> Iterator[BinaryIO]:
    """Opens a local or remote file and decompresses it, if its extension states a compression."""
    from fsspec.compression import compr

    with open_file(path) as file:
        compression = compression_of(path)
        raw: Any = compr[compression](file, mode="rb") if compression else file
        yield io.BufferedReader(raw, BLOCK)


@dataclass(frozen=True)
class FilePart:
    """Bytes of a text file, row groups of a parquet file, or examples of a TFDS split.

    A compressed file is one part, whatever its size.
    """

    path: str
    kind: str  # of its format: a key of `corpus.READERS`
    start: int  # byte, row group or example
    end: int
    num_bytes: int  # of the file, for progress bars
    text_field: str = "text"  # of JSON lines, parquet files and TFDS examples


Unit = tuple[FilePart, ...]  # what one job reads


def num_bytes_of(unit: Unit) -> int:
    """Returns the number of bytes of a unit, for progress bars."""
    return sum(part.num_bytes for part in unit)


def grouped(
    items: Iterable[Item], *, size_of: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Yields lists of neighbouring items, of at most `most` together; a larger item is alone."""
    group, size = [], 0
    for item in items:
        if group and size + size_of(item) > most:
            yield group
            group, size = [], 0
        group.append(item)
        size += size_of(item)
    if group:
        yield group


def decoded(raw: bytes, part: FilePart, place: int) -> str:
    """Decodes a line of a part, by its first byte, or a row or an example, by its number."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{_location(part, place)} is not UTF-8 (byte {raw[error.start]:#04x} at column "
            f"{error.start + 1}); convert the file to UTF-8, or drop such bytes with iconv -c"
        ) from error


def document(raw: bytes, part: FilePart, place: int) -> Iterator[str]:
    """Yields the lines of a record, then ""; blank lines in it do not end a document."""
    yield from filter(None, map(_stripped, decoded(raw, part, place).split("\n")))
    yield ""


def _stripped(line: str) -> str:
    """Strips a line and composes its characters, because a cased vocabulary has composed ones."""
    return unicodedata.normalize("NFC", line).strip()


def _location(part: FilePart, place: int) -> str:
    if noun := _NOUNS.get(part.kind):
        return f"{part.path}, {noun} {place:,}"
    number, remaining = 1, place
    with open_text(part.path) as file:
        while data := file.read(min(remaining, BLOCK)):
            number += data.count(b"\n")
            remaining -= len(data)
    return f"{part.path}, line {number:,}"


def format_of(path: str) -> str:
    """Returns the format of a file: "parquet", "wikiextractor", "jsonl" or "text"."""
    with open_text(path) as file:
        head = file.read(_HEAD).removeprefix(BYTE_ORDER_MARK)
    if head.startswith(b"PAR1"):
        return "parquet"
    head = head.lstrip()
    if head.startswith(b"<doc id="):
        return "wikiextractor"
    is_json = _JSON_NAME.search(os.path.basename(path)) or _JSON_OBJECT.match(head)
    return "jsonl" if is_json else "text"


def plain_text(part: FilePart) -> Iterator[str]:
    """Reads plain text: a line is a paragraph or a sentence, a blank line ends a document."""
    for position, line in _lines(part):
        yield _stripped(decoded(line, part, position))


def articles(part: FilePart) -> Iterator[str]:
    """Reads the text of wikiextractor: `<doc id= url= title=>`, the title, paragraphs, `</doc>`.

    An article is a document; blank lines do not end it. The line with the title is dropped, because
    it is not a sentence and wikiextractor's JSON does not contain it.
    """
    title = None
    for line in plain_text(part):
        if line.startswith("<doc id="):
            match = _TITLE.search(line)
            title = html.unescape(match[1]) if match else None
            yield ""
        elif line == "</doc>":
            yield ""
        elif line:
            if line != title:
                yield line
            title = None


def json_lines(part: FilePart) -> Iterator[str]:
    """Reads JSON lines: the text of each object is a document; blank lines do not end it."""
    for position, line in _lines(part):
        if not line.strip():
            continue
        source = decoded(line, part, position)
        try:
            text = json.loads(source)[part.text_field] or ""
            # JSON can spell half of a surrogate pair; as bytes it is refused as other bad UTF-8
            data = text.encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f'{_location(part, position)} is no JSON object with a text "{part.text_field}" '
                f"({quoted(error)}); correct it, or name the field: text_field=NAME (--text-field)"
            ) from error
        yield from document(data, part, position)


def _lines(part: FilePart) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of the documents that begin in a part, each with the number of its byte."""
    with open_text(part.path) as file:
        position, end = 0, math.inf
        if not compression_of(part.path):
            size, pattern = file.seek(0, os.SEEK_END), DOCUMENT_STARTS[part.kind]
            position = _first_start(file, part.start, part.end, pattern) if part.start else 0
            end = part.end if position == part.end else _first_start(file, part.end, size, pattern)
            file.seek(position)
        while position < end and (line := file.readline()):
            yield position, line if position else line.removeprefix(BYTE_ORDER_MARK)
            position += len(line)


def _first_start(file: BinaryIO, start: int, end: int, pattern: re.Pattern) -> int:
    """Returns the first match of `pattern` in [start, end), or `end` if there is none."""
    offset = max(0, start - _MAX_MATCH)  # of `data` in the file
    file.seek(offset)
    data = b""
    while offset < end and (read := file.read(BLOCK)):
        data += read
        for match in pattern.finditer(data):
            if offset + match.end(1) >= start:
                return min(offset + match.end(1), end)
        offset += max(0, len(data) - _MAX_MATCH)
        data = data[-_MAX_MATCH:]
    return end
