"""Decodes the lines, rows and examples of a part of a file, and counts those that it repairs."""

import contextlib
import io
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

from bert_keras.errors import InputError, check
from bert_keras.files import open_file

REMARKS = {  # name in the manifest: description
    "lines_not_utf8_dropped": "lines that are not UTF-8, dropped",
    "lines_not_utf8_replaced": "lines that are not UTF-8, kept with U+FFFD for invalid bytes",
    "records_damaged_dropped": "records that cannot be read, dropped",
    "long_lines_cut": "lines too long for memory, cut at white space",
    "lines_decomposed": "lines with decomposed characters (NFD), such as Hangul as jamo, composed",
}
ERRORS = ("fail", "skip", "replace")  # what to do with lines that are not UTF-8
LONGEST_LINE = 1 << 22  # characters; a longer line is divided
BLOCK = 1 << 18  # bytes read at once
_NOUNS = {"parquet": "row", "tfds": "example"}  # by the kind of a file; others have lines
Item = TypeVar("Item")


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


@dataclass
class Repairs:
    """Counts what was repaired; it is converted to and from JSON by `asdict` and `**values`."""

    counts: dict[str, int] = field(default_factory=dict)  # by the names of `REMARKS`
    first: dict[str, str] = field(default_factory=dict)  # location of the first of each kind
    num_lines: int = 0  # lines of text that were read

    def add(self, other: "Repairs") -> None:
        """Adds the counts of another part of the corpus."""
        self.counts = dict(Counter(self.counts) + Counter(other.counts))
        self.first = other.first | self.first
        self.num_lines += other.num_lines

    def remarks(self) -> list[str]:
        """Returns a sentence for each kind of repair, with the first location."""
        return [
            f"{text}: {self.counts[name]:,} (first: {self.first[name]})"
            for name, text in REMARKS.items()
            if name in self.counts
        ]

    def expect_text(self) -> None:
        """Raises InputError if no line of text was read."""
        reasons = "; ".join(self.remarks()) or "no lines but blank ones"
        check(
            self.num_lines, f"the corpus contains no text ({reasons}); expected a paragraph a line"
        )


@dataclass(frozen=True)
class Decoder:
    """Decodes the lines of a text file by their first byte, or rows or examples by their number.

    `errors` is the treatment of a line that is not UTF-8: "fail" raises an InputError, "skip" drops
    the line, "replace" inserts U+FFFD instead of invalid bytes.
    """

    part: FilePart
    repairs: Repairs
    errors: str = "fail"

    def text(self, raw: bytes, place: int) -> str | None:
        """Decodes a line, row or example; returns None if it is dropped."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            if self.errors == "fail":
                raise InputError(
                    f"{self._location(place)} is not UTF-8 (byte {raw[error.start]:#04x} at column "
                    f"{error.start + 1}); convert the file to UTF-8, or drop such lines with "
                    "--errors skip or keep them with --errors replace"
                ) from error
        is_dropped = self.errors == "skip"
        self._note(f"lines_not_utf8_{'dropped' if is_dropped else 'replaced'}", place)
        return None if is_dropped else raw.decode(errors="replace")

    def lines(self, raw: bytes, place: int) -> Iterator[str]:
        """Yields a line stripped and in NFC, a very long one in parts; nothing if it is dropped."""
        text = self.text(raw, place)
        if text is None:
            return
        if not unicodedata.is_normalized("NFC", text):  # a cased vocabulary has composed letters
            self._note("lines_decomposed", place)
            text = unicodedata.normalize("NFC", text)
        if len(text) > LONGEST_LINE:
            self._note("long_lines_cut", place)
        while len(text) > LONGEST_LINE:
            end = max(text.rfind(" ", 0, LONGEST_LINE), 0) or LONGEST_LINE
            if part := text[:end].strip():
                yield part
            text = text[end:].lstrip()
        yield text.strip()

    def document(self, raw: bytes, place: int) -> Iterator[str]:
        """Yields the lines of a record, then ""; blank lines in it do not end a document."""
        for line in raw.split(b"\n"):
            yield from filter(None, self.lines(line, place))
        yield ""

    def drop(self, place: int, reason: str) -> None:
        """Drops a record, or raises InputError with the reason if `errors` is "fail"."""
        if self.errors == "fail":
            location = self._location(place)
            raise InputError(f"{location} {reason}; correct it, or drop it with --errors skip")
        self._note("records_damaged_dropped", place)

    def _note(self, name: str, place: int) -> None:
        noun = _NOUNS.get(self.part.kind, "byte")
        self.repairs.first.setdefault(name, f"{self.part.path}, {noun} {place:,}")
        self.repairs.counts[name] = self.repairs.counts.get(name, 0) + 1

    def _location(self, place: int) -> str:
        if noun := _NOUNS.get(self.part.kind):
            return f"{self.part.path}, {noun} {place:,}"
        number, remaining = 1, place
        with open_text(self.part.path) as file:
            while data := file.read(min(remaining, BLOCK)):
                number += data.count(b"\n")
                remaining -= len(data)
        return f"{self.part.path}, line {number:,}"
