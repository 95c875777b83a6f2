"""Decodes the lines, rows and examples of a part of a file, and counts those that it repairs."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from bert_keras.errors import InputError
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
Item = TypeVar("Item")


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
    """Counts what was repaired; the sum over all units does not depend on their number.

    It is converted to and from JSON by `asdict` and `Repairs(**values)`.
    """

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
        if not self.num_lines:
            reasons = "; ".join(self.remarks()) or "no lines but blank ones"
            raise InputError(
                f"the corpus contains no text ({reasons}); expected a paragraph a line"
            )


@dataclass(frozen=True)
class Decoder:
    """Decodes the lines, rows or examples of a part, which are numbered from 1 or from `first`.

    `errors` is the treatment of a line that is not UTF-8: "fail" raises an InputError, "skip" drops
    the line, "replace" inserts U+FFFD instead of invalid bytes.
    """

    part: FilePart
    repairs: Repairs
    errors: str = "fail"

    def text(self, raw: bytes, number: int, noun: str = "line") -> str | None:
        """Decodes line, row or example `number`; returns None if it is dropped."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            if self.errors == "fail":
                raise InputError(
                    f"{self._location(number, noun)} is not UTF-8 (byte {raw[error.start]:#04x} at "
                    f"column {error.start + 1}); convert the file to UTF-8, or drop such lines "
                    "with --errors skip or keep them with --errors replace"
                ) from error
        is_dropped = self.errors == "skip"
        self._note(f"lines_not_utf8_{'dropped' if is_dropped else 'replaced'}", number, noun)
        return None if is_dropped else raw.decode(errors="replace")

    def lines(self, raw: bytes, number: int, noun: str = "line") -> Iterator[str]:
        """Yields a line in NFC and stripped, a very long one in parts; nothing if it is dropped.

        A cased vocabulary has no decomposed letters.
        """
        text = self.text(raw, number, noun)
        if text is None:
            return
        if not unicodedata.is_normalized("NFC", text):
            self._note("lines_decomposed", number, noun)
            text = unicodedata.normalize("NFC", text)
        if len(text) > LONGEST_LINE:
            self._note("long_lines_cut", number, noun)
        while len(text) > LONGEST_LINE:
            end = text.rfind(" ", 1, LONGEST_LINE)
            end = end if end > 0 else LONGEST_LINE
            if part := text[:end].strip():
                yield part
            text = text[end:].lstrip()
        yield text.strip()

    def document(self, raw: bytes, number: int, noun: str) -> Iterator[str]:
        """Yields the lines of a record, then ""; blank lines in it do not end a document."""
        for line in raw.split(b"\n"):
            yield from filter(None, self.lines(line, number, noun))
        yield ""

    def drop(self, number: int, reason: str) -> None:
        """Drops a record, or raises InputError with the reason if `errors` is "fail"."""
        if self.errors == "fail":
            raise InputError(
                f"{self._location(number)} {reason}; correct it, or drop it with --errors skip"
            )
        self._note("records_damaged_dropped", number, "line")

    def _note(self, name: str, number: int, noun: str) -> None:
        after = f" after byte {self.part.start:,}" if noun == "line" and self.part.start else ""
        self.repairs.first.setdefault(name, f"{self.part.path}, {noun} {number:,}{after}")
        self.repairs.counts[name] = self.repairs.counts.get(name, 0) + 1

    def _location(self, number: int, noun: str = "line") -> str:
        """Returns the path and the number, of lines counted from the beginning of the file."""
        remaining = self.part.start if noun == "line" else 0
        if remaining:
            with open_file(self.part.path) as file:
                while data := file.read(min(remaining, 1 << 20)):
                    number += data.count(b"\n")
                    remaining -= len(data)
        return f"{self.part.path}, {noun} {number:,}"
