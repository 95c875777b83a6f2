"""Divides files into parts that jobs read, groups parts into units, and finds their documents.

A document belongs to the part in which it begins, so adjacent parts contain every document exactly
once, wherever the boundary is. The readers of both parts find the same first document after it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from bert_keras.errors import InputError

LONGEST_LINE = 1 << 22  # bytes; a longer line is returned in parts
BLOCK = 1 << 18  # bytes read at once; a block that fits a processor's cache is fastest

# A document begins at the end of each match. Some documents begin elsewhere: a line of more than 64
# blanks also separates documents, but is not matched.
CUTS = {
    "text": re.compile(rb"\n(?=([ \t\r]{0,64}\n))"),
    "wikiextractor": re.compile(rb"\n()(?=<doc id=)"),
    "jsonl": re.compile(rb"\n()"),
}
_REACH = 80  # bytes; at least the length of a match with its lookahead


@dataclass(frozen=True)
class Part:
    """Bytes of an uncompressed text file, row groups of a parquet file, examples of a TFDS split.

    A compressed file is one part, whatever its size.
    """

    path: str
    kind: str  # the format, followed by the compression, as in "text.gz"
    start: int  # byte, row group or example
    end: int
    num_bytes: int  # its share of the file, for progress bars
    text_field: str = "text"  # of JSON lines, parquet files and TFDS examples

    @property
    def format(self) -> str:
        return self.kind.partition(".")[0]

    @property
    def compression(self) -> str:
        return self.kind.partition(".")[2]


Unit = tuple[Part, ...]  # what one job reads
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


def snapped(file: BinaryIO, start: int, end: int, *, size: int, cuts: re.Pattern) -> range:
    """Returns the bytes of the documents that begin in [start, end).

    Args:
        file: The file.
        start: The first byte of the part.
        end: The end of the part.
        size: The size of the file.
        cuts: The pattern of `CUTS` for the format.
    """
    if size < end:
        raise _shorter(file, end - size)
    begin = first_cut(file, start, end, cuts=cuts) if start else 0
    if begin == end:
        return range(0)
    return range(begin, first_cut(file, end, size, cuts=cuts))


def first_cut(file: BinaryIO, start: int, end: int, *, cuts: re.Pattern) -> int:
    """Returns the first match of `cuts` in [start, end), or `end` if there is none."""
    at = max(0, start - _REACH)
    file.seek(at)
    data = b""
    while at < end:
        read = file.read(BLOCK)
        data += read
        for match in cuts.finditer(data):
            place = at + match.end(1)
            if place >= start:
                return min(place, end)
        if not read:
            return end
        at += max(0, len(data) - _REACH)
        data = data[-_REACH:]
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
    left = num_bytes
    while left is None or left:
        data = file.read(BLOCK if left is None else min(BLOCK, left))
        if not data and left:
            raise _shorter(file, left)
        if not data:
            return
        yield data
        left = None if left is None else left - len(data)


def _end_of_part(line: bytes, longest: int) -> int:
    end = max(line.rfind(b" ", 0, longest), line.rfind(b"\t", 0, longest))
    if end > 0:
        return end
    end = longest
    while end > longest - 3 and line[end] & 0xC0 == 0x80:  # a continuation byte of UTF-8
        end -= 1
    return end


def _shorter(file: BinaryIO, num_bytes: int) -> InputError:
    return InputError(
        f"{file.name} became {num_bytes:,} bytes shorter while it was read; leave the corpus as it "
        "is until the records are written"
    )
