"""Decodes the lines, rows and examples of a part of a file, and counts those that it repairs."""

import contextlib
import io
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from bert_keras.errors import InputError, check
from bert_keras.files import open_file

REMARKS = {  # name in the manifest: description
    "lines_not_utf8_dropped": "lines that are not UTF-8, dropped",
    "lines_not_utf8_replaced": "lines that are not UTF-8, kept with U+FFFD for invalid bytes",
}
ERRORS = ("fail", "skip", "replace")  # what to do with lines that are not UTF-8
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


def remarks_of(counts: Mapping[str, int]) -> list[str]:
    """Returns a sentence for each kind of lines that were not UTF-8; see `REMARKS`."""
    return [f"{text}: {counts[name]:,}" for name, text in REMARKS.items() if counts.get(name)]


def expect_text(counts: Mapping[str, int]) -> None:
    """Raises InputError if no line of text was read."""
    reasons = "; ".join(remarks_of(counts)) or "no lines but blank ones"
    expected = f"the corpus contains no text ({reasons}); expected a paragraph a line"
    check(counts.get("lines"), expected)


@dataclass(frozen=True)
class Decoder:
    """Decodes the lines of a text file by their first byte, or rows or examples by their number.

    `errors` is the treatment of a line that is not UTF-8: "fail" raises an InputError, "skip" drops
    the line, "replace" inserts U+FFFD instead of invalid bytes.
    """

    part: FilePart
    counts: Counter[str]  # of "lines" and of those in `REMARKS`
    errors: str = "fail"

    def text(self, raw: bytes, place: int) -> str | None:
        """Decodes a line, row or example; returns None if it is dropped."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            if self.errors == "fail":
                raise InputError(
                    f"{self.location(place)} is not UTF-8 (byte {raw[error.start]:#04x} at column "
                    f"{error.start + 1}); convert the file to UTF-8, or drop such lines with "
                    "--errors skip or keep them with --errors replace"
                ) from error
        is_dropped = self.errors == "skip"
        self.counts[f"lines_not_utf8_{'dropped' if is_dropped else 'replaced'}"] += 1
        return None if is_dropped else raw.decode(errors="replace")

    def line(self, raw: bytes, place: int) -> str | None:
        """Decodes a line to NFC, as a cased vocabulary has composed letters, and strips it."""
        text = self.text(raw, place)
        return text and unicodedata.normalize("NFC", text).strip()

    def document(self, raw: bytes, place: int) -> Iterator[str]:
        """Yields the lines of a record, then ""; blank lines in it do not end a document."""
        for line in raw.split(b"\n"):
            if text := self.line(line, place):
                yield text
        yield ""

    def location(self, place: int) -> str:
        """Returns the name of the file and the number of a line, row or example for errors."""
        if noun := _NOUNS.get(self.part.kind):
            return f"{self.part.path}, {noun} {place:,}"
        number, remaining = 1, place
        with open_text(self.part.path) as file:
            while data := file.read(min(remaining, BLOCK)):
                number += data.count(b"\n")
                remaining -= len(data)
        return f"{self.part.path}, line {number:,}"
