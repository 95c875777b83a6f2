"""Reads the text of files in parts: plain text, wikiextractor, JSON lines and parquet.

The reader of a part yields the stripped lines of the documents that begin in it, and "" at the end
of each document.
"""

import bz2
import contextlib
import html
import io
import json
import lzma
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, TypeVar
from zipfile import ZipFile

from bert_keras.errors import InputError, check_name, quoted
from bert_keras.files import open_file, utf8_error

READ_BYTES = 1 << 18  # size of a block that is read or decompressed
MAX_LINE = 1 << 26  # bytes; a small compressed file can have a line that fills the memory
_TABLE_BUFFER_BYTES = 1 << 20  # limits the memory for a column of a parquet file
_ROWS_PER_BATCH = 16  # decoded together
Item = TypeVar("Item")
# A document starts where group 1 of a match ends. For "text", group 1 is a blank line. It is in a
# lookahead, because the line feed of this line can also begin the next match. Blank lines of over
# 64 characters separate documents, too, but no part begins after one: this limits the length of a
# match to _MAX_MATCH_BYTES.
DOCUMENT_STARTS = {
    "text": re.compile(rb"\n(?=([ \t\r]{0,64}\n))"),
    "wikiextractor": re.compile(rb"\n()(?=<doc id=)"),
    "jsonl": re.compile(rb"\n()"),
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_MATCH_BYTES = 80  # no match of DOCUMENT_STARTS is longer, with its lookahead
_HEAD_BYTES = 1 << 16  # enough to recognize a format
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
        if compression and not file.read(1):
            raise EOFError("the file is empty")
        file.seek(0)
        if compression == "zip" and (num_files := len(ZipFile(file).namelist())) > 1:
            raise ValueError(f"it contains {num_files} files; unpack it")
        reader = _DECOMPRESSORS.get(compression, compr[compression])
        yield io.BufferedReader(reader(file, mode="rb"), READ_BYTES)


class _Streams(io.RawIOBase):
    """Decompresses every stream of a file; Python's readers end at a damaged later stream."""

    def __init__(self, decompressor: Callable[[], Any], file: BinaryIO, mode: str):
        self._file, self._decompressor, self._stream = file, decompressor, decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = b""
        while not content:
            data = b""
            if self._stream.eof:
                data = self._stream.unused_data.lstrip(b"\0")  # zero bytes pad a stream
                while not data:
                    if not (data := self._file.read(READ_BYTES)):
                        return 0
                    data = data.lstrip(b"\0")
                self._stream = self._decompressor()
            elif self._stream.needs_input and not (data := self._file.read(READ_BYTES)):
                raise EOFError("the last stream has no end")
            content = self._stream.decompress(data, len(buffer))
        buffer[: len(content)] = content
        return len(content)


_DECOMPRESSORS: dict[str | None, Any] = {"bz2": partial(_Streams, bz2.BZ2Decompressor)}
_DECOMPRESSORS |= dict.fromkeys(("lzma", "xz"), partial(_Streams, lzma.LZMADecompressor))


@dataclass(frozen=True)
class FilePart:
    """A part of a file: a byte range, a whole compressed file, or row groups of parquet."""

    path: str
    format: str  # a key of `READERS`
    start: int  # index of the first byte or row group of the part
    end: int  # index after the last one
    num_bytes: int  # size of the part in the file, for progress bars
    text_field: str = "text"  # the field of JSON lines or parquet that has the text


Unit = tuple[FilePart, ...]  # the parts that one job reads


def num_bytes_of(unit: Unit) -> int:
    """Returns the number of bytes of a unit, for progress bars."""
    return sum(part.num_bytes for part in unit)


def group_items(
    items: Iterable[Item], *, size_of: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Divides items into lists of adjacent items with a total size of at most `most`.

    An item that is larger is alone in its list.
    """
    group, size = [], 0
    for item in items:
        if group and size + size_of(item) > most:
            yield group
            group, size = [], 0
        group.append(item)
        size += size_of(item)
    if group:
        yield group


def decode_text(raw: bytes, part: FilePart, position: int) -> str:
    """Decodes a line, or the text of a row; an InputError names its place in the file.

    `position` is the index of the line's first byte, or the number of the row, from 1.
    """
    if len(raw) > MAX_LINE:
        raise InputError(f"{_location(part, position)} is over {MAX_LINE:,} bytes long; divide it")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise utf8_error(_location(part, position), error) from error


def lines_of_record(raw: bytes, part: FilePart, position: int) -> Iterator[str]:
    """Yields the lines of a JSON object or row, without blank lines, and then ""."""
    yield from filter(None, map(_stripped, decode_text(raw, part, position).split("\n")))
    yield ""


def _stripped(line: str) -> str:
    """Strips a line and composes its characters, because a cased vocabulary has composed ones."""
    return unicodedata.normalize("NFC", line).strip()


def _location(part: FilePart, position: int) -> str:
    """Returns the place of a text for errors; see `decode_text`."""
    if part.format == "parquet":
        return f"{part.path}, row {position:,}"
    line_number, remaining = 1, position
    with open_text(part.path) as file:
        while data := file.read(min(remaining, READ_BYTES)):
            line_number += data.count(b"\n")
            remaining -= len(data)
    return f"{part.path}, line {line_number:,}"


def file_format(path: str) -> str:
    """Returns the format of a file: "parquet", "wikiextractor", "jsonl" or "text"."""
    with open_text(path) as file:
        head = file.read(_HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)
    if head.startswith(b"PAR1"):
        return "parquet"
    head = head.lstrip()
    if head.startswith(b"<doc id="):
        return "wikiextractor"
    is_json = _JSON_NAME.search(os.path.basename(path)) or _JSON_OBJECT.match(head)
    return "jsonl" if is_json else "text"


def read_plain_text(part: FilePart) -> Iterator[str]:
    """Reads plain text: a line is a paragraph or a sentence, a blank line ends a document."""
    for position, line in _lines(part):
        yield _stripped(decode_text(line, part, position))


def read_articles(part: FilePart) -> Iterator[str]:
    """Reads the text of wikiextractor: `<doc id= url= title=>`, the title, paragraphs, `</doc>`."""
    # The title is dropped, because it is not a sentence and wikiextractor's JSON does not have it.
    title = None
    for line in read_plain_text(part):
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


def read_json_lines(part: FilePart) -> Iterator[str]:
    """Reads JSON lines: the text of each object is a document."""
    for position, line in _lines(part):
        if not line.strip():
            continue
        source = decode_text(line, part, position)
        try:
            text = json.loads(source)[part.text_field] or ""
            # JSON can contain half of a surrogate pair, which `decode_text` refuses.
            data = text.encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f'{_location(part, position)} is not a JSON object with a text "{part.text_field}" '
                f"({quoted(error)}); correct it, or name the field (--text-field)"
            ) from error
        yield from lines_of_record(data, part, position)


def _lines(part: FilePart) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of the documents that begin in a part, each with its first byte's index."""
    with open_text(part.path) as file:
        position, end = 0, math.inf  # a compressed file is read as a whole
        if not compression_of(part.path):
            size, pattern = file.seek(0, os.SEEK_END), DOCUMENT_STARTS[part.format]
            position = _first_start(file, part.start, part.end, pattern) if part.start else 0
            if position == part.end:  # no document begins in this part
                return
            end = _first_start(file, part.end, size, pattern)  # the last document may end there
            file.seek(position)
        while position < end and (line := file.readline(MAX_LINE + 1)):
            yield position, line if position else line.removeprefix(BYTE_ORDER_MARK)
            position += len(line)


def _first_start(file: BinaryIO, start: int, end: int, pattern: re.Pattern) -> int:
    """Returns the first document start in [start, end), or `end` if there is none."""
    offset = max(0, start - _MAX_MATCH_BYTES)  # the position of `data` in the file
    file.seek(offset)
    data = b""
    while offset < end and (read := file.read(READ_BYTES)):
        data += read
        for match in pattern.finditer(data):
            if (found := offset + match.end(1)) >= start:
                return min(found, end)
        # A match may begin in this block and end in the next one.
        offset += max(0, len(data) - _MAX_MATCH_BYTES)
        data = data[-_MAX_MATCH_BYTES:]
    return end


def row_group_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent row groups, each of up to `unit_bytes` of text in storage."""
    with _open_table(path) as table:
        metadata = table.metadata
        check_name(text_field, table.schema_arrow.names, what=f"field (--text-field) of {path}")
        # Parquet stores the fields of a nested column as columns, such as "column.field".
        columns = [table.schema.column(index).path for index in range(len(table.schema))]
        column = next(n for n, path in enumerate(columns) if path.split(".")[0] == text_field)
        groups = range(metadata.num_row_groups)
        sizes = [metadata.row_group(n).column(column).total_compressed_size for n in groups]
    for group in group_items(groups, size_of=sizes.__getitem__, most=unit_bytes):
        start, end = group[0], group[-1] + 1
        yield FilePart(path, "parquet", start, end, sum(sizes[start:end]), text_field)


def read_rows(part: FilePart) -> Iterator[str]:
    """Reads rows of a parquet file: the text of each is a document."""
    import pyarrow as pa

    with _open_table(part.path) as table:
        metadata = table.metadata
        row_number = 1 + sum(metadata.row_group(n).num_rows for n in range(part.start))
        rows = {"row_groups": range(part.start, part.end), "columns": [part.text_field]}
        for batch in table.iter_batches(batch_size=_ROWS_PER_BATCH, use_threads=False, **rows):
            for text in batch.column(0).cast(pa.large_binary()).to_pylist():
                yield from lines_of_record(text or b"", part, row_number)
                row_number += 1


@contextlib.contextmanager
def _open_table(path: str) -> Iterator:
    from pyarrow.parquet import ParquetFile

    options = {"buffer_size": _TABLE_BUFFER_BYTES, "pre_buffer": False}
    with open_file(path) as file, ParquetFile(file, **options) as table:
        yield table


READERS: dict[str, Callable[[FilePart], Iterator[str]]] = {
    "text": read_plain_text,
    "wikiextractor": read_articles,
    "jsonl": read_json_lines,
    "parquet": read_rows,
}
