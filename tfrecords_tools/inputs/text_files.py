"""Reads plain text, wikiextractor output and JSON lines as stripped lines; "" ends a document.

A document belongs to the part in which it begins, so adjacent parts contain every document once.
"""

import html
import json
import math
import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from bert_keras.errors import InputError, check
from tfrecords_tools.inputs.decoding import BLOCK, Decoder, FilePart, compression_of, open_text

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


def plain_text(part: FilePart, decoder: Decoder) -> Iterator[str]:
    """Reads plain text: a line is a paragraph or a sentence, a blank line ends a document."""
    for position, raw in _lines(part):
        if (line := decoder.line(raw, position)) is not None:
            yield line


def articles(part: FilePart, decoder: Decoder) -> Iterator[str]:
    """Reads the text of wikiextractor: `<doc id= url= title=>`, the title, paragraphs, `</doc>`.

    An article is a document; blank lines do not end it. The line with the title is dropped, because
    it is not a sentence and wikiextractor's JSON does not contain it.
    """
    title = None
    for line in plain_text(part, decoder):
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


def json_lines(part: FilePart, decoder: Decoder) -> Iterator[str]:
    """Reads JSON lines: the text of each object is a document; blank lines do not end it."""
    for position, line in _lines(part):
        source = decoder.text(line, position) if line.strip() else None
        if source is None:
            continue
        try:
            text = json.loads(source)[part.text_field] or ""
            # JSON can spell half of a surrogate pair; as bytes it is treated as other bad UTF-8
            data = text.encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f'{decoder.location(position)} is no JSON object with a text "{part.text_field}" '
                f"({error!r:.80}); correct it, or name the field with --text-field"
            ) from error
        yield from decoder.document(data, position)


def _lines(part: FilePart) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of the documents that begin in a part, each with the number of its byte."""
    with open_text(part.path) as file:
        position, end = 0, math.inf
        if not compression_of(part.path):
            position, end = _document_bytes(part, file)
            file.seek(position)
        while position < end and (line := file.readline()):
            yield position, line if position else line.removeprefix(BYTE_ORDER_MARK)
            position += len(line)


def _document_bytes(part: FilePart, file: BinaryIO) -> tuple[int, int]:
    """Returns the first byte of the documents that begin in a part, and the byte after the last."""
    size = file.seek(0, os.SEEK_END)
    check(size >= part.end, f"{part.path} became shorter while it was read; run again")
    pattern = DOCUMENT_STARTS[part.kind]
    start = _first_start(file, part.start, part.end, pattern) if part.start else 0
    return start, start if start == part.end else _first_start(file, part.end, size, pattern)


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
