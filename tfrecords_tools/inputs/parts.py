"""Divides files into parts that jobs read, groups parts into units, and finds their documents.

A document belongs to the part in which it begins, so adjacent parts contain every document exactly
once, wherever the boundary is. The readers of both parts find the same first document after it.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from bert_keras.errors import InputError
from bert_keras.files import open_file

LONGEST_LINE = 1 << 22  # bytes; a longer line is returned in parts
BLOCK = 1 << 18  # bytes read at once; a block that fits a processor's cache is fastest

# A document begins at the end of each match. Some documents begin elsewhere: a line of more than 64
# blanks also separates documents, but is not matched.
DOCUMENT_STARTS = {
    "text": re.compile(rb"\n(?=([ \t\r]{0,64}\n))"),
    "wikiextractor": re.compile(rb"\n()(?=<doc id=)"),
    "jsonl": re.compile(rb"\n()"),
}
_MAX_MATCH = 80  # bytes; at least the length of a match with its lookahead


@dataclass(frozen=True)
class FilePart:
    """Bytes of an uncompressed text file, row groups of a parquet file, examples of a TFDS split.

    A compressed file is one part, whatever its size.
    """

    path: str
    kind: str  # the format, followed by the compression, as in "text.gz"
    start: int  # byte, row group or example
    end: int
    num_bytes: int  # of the file, for progress bars
    text_field: str = "text"  # of JSON lines, parquet files and TFDS examples

    @property
    def format(self) -> str:
        return self.kind.partition(".")[0]

    @property
    def compression(self) -> str:
        return self.kind.partition(".")[2]


Unit = tuple[FilePart, ...]  # what one job reads
Item = TypeVar("Item")


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


def document_bytes(part: FilePart) -> range:
    """Returns the bytes of the documents that begin in a part; empty for a compressed file.

    They extend from the first document of the part to the first document of the next part.

    Raises:
        InputError: The file has become shorter.
    """
    if part.compression:
        return range(0)
    pattern = DOCUMENT_STARTS[part.format]
    with open_file(part.path) as file:
        size = file.seek(0, os.SEEK_END)
        if size < part.end:
            raise _truncation_error(file)
        start = first_start(file, part.start, part.end, pattern=pattern) if part.start else 0
        if start == part.end:
            return range(0)
        return range(start, first_start(file, part.end, size, pattern=pattern))


def first_start(file: BinaryIO, start: int, end: int, *, pattern: re.Pattern) -> int:
    """Returns the first match of `pattern` in [start, end), or `end` if there is none."""
    offset = max(0, start - _MAX_MATCH)  # of `data` in the file
    file.seek(offset)
    data = b""
    while offset < end:
        read = file.read(BLOCK)
        data += read
        for match in pattern.finditer(data):
            position = offset + match.end(1)
            if position >= start:
                return min(position, end)
        if not read:
            return end
        offset += max(0, len(data) - _MAX_MATCH)
        data = data[-_MAX_MATCH:]
    return end


def blocks(
    file: BinaryIO, *, num_bytes: int | None = None, longest: int = LONGEST_LINE
) -> Iterator[tuple[bytes, int]]:
    """Yields blocks of whole lines with the number 0, and parts of long lines with 1, 2 ...

    A line of more than `longest` bytes is returned in parts, which end before white space if
    possible and never inside a character. Memory holds `longest` bytes and a block.

    Args:
        file: The file, at the position where to start.
        num_bytes: The number of bytes to read; None reads to the end of the file.
        longest: The largest number of bytes of a line that is not divided.
    """
    rest, part = b"", 0
    for data in _reads(file, num_bytes):
        rest += data
        while True:
            first = rest.find(b"\n")
            if (len(rest) if first < 0 else first) > longest:
                end = _end_of_part(rest, longest)
            elif part and first >= 0:
                end = first + 1
            else:
                break
            part += 1
            yield rest[:end], part
            part = 0 if end == first + 1 else part
            rest = rest[end:]
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end], 0
            rest = rest[end:]
    if rest:
        yield rest, part + 1 if part else 0


def _reads(file: BinaryIO, num_bytes: int | None) -> Iterator[bytes]:
    remaining = num_bytes
    while remaining is None or remaining:
        data = file.read(BLOCK if remaining is None else min(BLOCK, remaining))
        if not data and remaining:
            raise _truncation_error(file)
        if not data:
            return
        yield data
        remaining = None if remaining is None else remaining - len(data)


def _end_of_part(line: bytes, longest: int) -> int:
    end = max(line.rfind(b" ", 0, longest), line.rfind(b"\t", 0, longest))
    if end > 0:
        return end
    end = longest
    while end > longest - 3 and line[end] & 0xC0 == 0x80:  # a continuation byte of UTF-8
        end -= 1
    return end


def _truncation_error(file: BinaryIO) -> InputError:
    return InputError(
        f"{file.name} became shorter while it was read; do not change the corpus until the records "
        "are written"
    )
