"""Decodes lines of text and counts dropped and repaired lines by kind, with the first locations."""

import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bert_keras.errors import InputError
from bert_keras.files import open_file
from tfrecords_tools.inputs.parts import blocks

NUM_LOCATIONS = 5  # locations that are stored for each kind of repair
REMARKS = {  # name in the manifest: description
    "empty_files": "empty files",
    "files_without_text": "files without text",
    "lines_not_utf8_dropped": "lines that are not UTF-8, dropped",
    "lines_not_utf8_replaced": "lines that are not UTF-8, kept with U+FFFD for invalid bytes",
    "long_lines_cut": "lines too long for memory, cut at white space",
    "records_damaged_dropped": "records that cannot be read, dropped",
    "records_without_text": "records without text",
    "control_characters": "control characters, which the tokenizer removes",
    "lone_carriage_returns": "carriage returns inside lines, read as white space",
    "lines_decomposed": "lines with decomposed characters (NFD), such as Hangul as jamo, composed",
}
_READ_BYTES = 1 << 20
ERRORS = ("fail", "skip", "replace")  # what to do with lines that are not UTF-8


@dataclass(frozen=True)
class Location:
    """A line, row or example of a file; numbers begin with 1, lines are counted from `start`."""

    path: str
    number: int
    noun: str = "line"
    start: int = 0

    def described(self) -> str:
        """Describes the location, with the number counted from the beginning of the file.

        For a line, this reads the part of the file that precedes `start`.
        """
        number, remaining = self.number, self.start
        if remaining:
            with open_file(self.path) as file:
                while data := file.read(min(remaining, _READ_BYTES)):
                    number += data.count(b"\n")
                    remaining -= len(data)
        return f"{self.path}, {self.noun} {number:,}"


@dataclass
class Repairs:
    """Counts repairs; the sum over all units does not depend on how the corpus is divided."""

    counts: Counter[str] = field(default_factory=Counter)
    locations: dict[str, tuple[Location, ...]] = field(default_factory=dict)  # the first ones
    text_lines: Counter[str] = field(default_factory=Counter)  # by file, without empty files

    def note(self, name: str, location: Location, *, count: int = 1) -> None:
        """Counts repairs of one kind at a location; `name` is a key of `REMARKS`."""
        self.counts[name] += count
        locations = self.locations.get(name, ())
        if len(locations) < NUM_LOCATIONS:
            self.locations[name] = (*locations, location)

    def __iadd__(self, other: "Repairs") -> "Repairs":
        self.counts.update(other.counts)
        self.text_lines.update(other.text_lines)
        for name, locations in other.locations.items():
            self.locations[name] = (*self.locations.get(name, ()), *locations)[:NUM_LOCATIONS]
        return self

    def summary(self) -> dict[str, int]:
        """Returns the counts by name for the manifest, without names whose count is 0."""
        counts = {**self.counts, "files_without_text": len(self._files_without_text())}
        return {name: counts[name] for name in REMARKS if counts.get(name)}

    def remarks(self) -> list[str]:
        """Returns a sentence for each kind of repair, with the first locations."""
        return [
            f"{REMARKS[name]}: {count:,} ({self._located(name, count)})"
            for name, count in self.summary().items()
        ]

    def expect_text(self) -> None:
        """Raises InputError if no line of text was read."""
        if not any(self.text_lines.values()):
            has_dropped = any(name.endswith("_dropped") for name in self.counts)
            remedy = (
                "; bert-tfrecords build --errors fail reports the first error"
                if has_dropped
                else ""
            )
            reasons = "; ".join(self.remarks()) or "no files"
            raise InputError(
                f"the corpus contains no text ({reasons}); expected one paragraph per line{remedy}"
            )

    def _files_without_text(self) -> list[str]:
        return [path for path, count in self.text_lines.items() if not count]

    def _located(self, name: str, count: int) -> str:
        if name == "files_without_text":
            names = self._files_without_text()
        elif name == "empty_files":
            names = [location.path for location in self.locations[name]]
        else:
            names = [location.described() for location in self.locations[name]]
        return "; ".join(names[:NUM_LOCATIONS]) + ("; ..." if count > NUM_LOCATIONS else "")


_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r"})
_CONTROL = re.compile(b"[" + re.escape(_CONTROLS) + b"]")
_LONE_RETURN = re.compile(rb"\r(?!\n)")


@dataclass(frozen=True)
class Decoder:
    """Decodes the lines, rows or examples of one file.

    Numbers begin with 1; lines are counted from byte `start`. As in the original, only a line feed
    ends a line, and a carriage return that precedes it belongs to the line ending. `errors` is the
    treatment of a line that is not UTF-8: "fail" raises an InputError, "skip" drops the line,
    "replace" inserts U+FFFD instead of invalid bytes.
    """

    path: str
    repairs: Repairs
    errors: str
    noun: str = "line"
    start: int = 0

    def lines(self, block: bytes, number: int, *, step: int = 1) -> list[str]:
        """Returns the stripped lines of a block, numbered from `number` in steps of `step`."""
        self._note_odd_characters(block, number, step)
        block = block.removesuffix(b"\n")
        texts: Sequence[str | None]
        try:
            texts = block.decode().split("\n")
        except UnicodeDecodeError:
            raws = enumerate(block.split(b"\n"))
            texts = [self.text(raw, number + step * n) for n, raw in raws]
        return [
            self._composed(text, number + step * n).strip()
            for n, text in enumerate(texts)
            if text is not None
        ]

    def text(self, raw: bytes, number: int) -> str | None:
        """Decodes line `number`; returns None if the line is dropped."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            location = self.location(number)
            if self.errors == "fail":
                raise InputError(
                    f"{location.described()} is not UTF-8 (byte {raw[error.start]:#04x} at column "
                    f"{error.start + 1}); convert the file to UTF-8; bert-tfrecords drops such "
                    "lines with --errors skip and keeps them with --errors replace"
                ) from error
            if self.errors == "skip":
                self.repairs.note("lines_not_utf8_dropped", location)
                return None
            self.repairs.note("lines_not_utf8_replaced", location)
            return raw.decode(errors="replace")

    def document(self, text: bytes, number: int) -> Iterator[list[str]]:
        """Yields the lines of a record, then [""]; blank lines in it do not end a document."""
        has_text = False
        for block, part in blocks(io.BytesIO(text)):
            if part == 1:
                self.repairs.note("long_lines_cut", self.location(number))
            lines = [line for line in self.lines(block, number, step=0) if line]
            has_text = has_text or bool(lines)
            yield lines
        if not has_text:
            self.repairs.note("records_without_text", self.location(number))
        yield [""]

    def drop(self, number: int, reason: str) -> None:
        """Drops a record, or raises InputError with the reason if `errors` is "fail"."""
        location = self.location(number)
        if self.errors == "fail":
            raise InputError(
                f"{location.described()} {reason}; correct it; bert-tfrecords drops such records "
                "with --errors skip"
            )
        self.repairs.note("records_damaged_dropped", location)

    def location(self, number: int) -> Location:
        """Returns the location of line, row or example `number`."""
        return Location(self.path, number, self.noun, self.start)

    def _composed(self, text: str, number: int) -> str:
        """Returns the text in NFC, which a cased vocabulary needs: it has no decomposed letters."""
        if unicodedata.is_normalized("NFC", text):
            return text
        self.repairs.note("lines_decomposed", self.location(number))
        return unicodedata.normalize("NFC", text)

    def _note_odd_characters(self, block: bytes, number: int, step: int) -> None:
        for name, pattern, count in (
            ("control_characters", _CONTROL, len(block) - len(block.translate(None, _CONTROLS))),
            ("lone_carriage_returns", _LONE_RETURN, block.count(b"\r") - block.count(b"\r\n")),
        ):
            if count and (first := pattern.search(block)):
                line = number + step * block.count(b"\n", 0, first.start())
                self.repairs.note(name, self.location(line), count=count)
