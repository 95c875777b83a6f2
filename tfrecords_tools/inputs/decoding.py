"""Decodes lines of text and counts dropped and repaired lines by kind, with the first locations."""

import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bert_keras.errors import InputError
from bert_keras.storage import open_file
from tfrecords_tools.inputs.parts import blocks

NUM_PLACES = 5  # locations that are stored for each kind of repair
REMARKS = {  # name in the manifest: description
    "empty_files": "empty files",
    "files_without_text": "files without text",
    "lines_not_utf8_dropped": "lines that are not UTF-8, dropped",
    "lines_not_utf8_replaced": "lines that are not UTF-8, kept with U+FFFD for what is wrong",
    "long_lines_cut": "lines too long to be held in memory, cut at white space",
    "records_damaged_dropped": "records that cannot be read, dropped",
    "records_without_text": "records without text",
    "control_characters": "control characters, which the tokenizer leaves out",
    "lone_carriage_returns": "carriage returns inside lines, read as white space",
}
_READ_AT_ONCE = 1 << 20  # bytes


@dataclass(frozen=True)
class Place:
    """A line, row or example of a file; numbers begin with 1, lines are counted from `start`."""

    path: str
    number: int
    noun: str = "line"
    start: int = 0

    def described(self) -> str:
        """Describes the location, with the number counted from the beginning of the file.

        For a line, this reads the part of the file that precedes `start`.
        """
        return f"{self.path}, {self.noun} {self.number + self._lines_before():,}"

    def _lines_before(self) -> int:
        count, left = 0, self.start
        if left:
            with open_file(self.path) as file:
                while data := file.read(min(left, _READ_AT_ONCE)):
                    count += data.count(b"\n")
                    left -= len(data)
        return count


@dataclass
class Repairs:
    """Counts repairs; the sum over all units does not depend on how the corpus is divided."""

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    text_lines: Counter[str] = field(default_factory=Counter)  # by file, without empty files

    def note(self, name: str, place: Place, *, count: int = 1) -> None:
        self.counts[name] += count
        places = self.places.get(name, ())
        if len(places) < NUM_PLACES:
            self.places[name] = (*places, place)

    def note_text(self, path: str, num_lines: int) -> None:
        self.text_lines[path] = self.text_lines.get(path, 0) + num_lines

    def __iadd__(self, other: "Repairs") -> "Repairs":
        self.counts.update(other.counts)
        self.text_lines.update(other.text_lines)
        for name, places in other.places.items():
            self.places[name] = (*self.places.get(name, ()), *places)[:NUM_PLACES]
        return self

    def summary(self) -> dict[str, int]:
        """Returns the counts by name for the manifest, without names whose count is 0."""
        counts = {**self.counts, "files_without_text": len(self._silent_files())}
        return {name: counts[name] for name in REMARKS if counts.get(name)}

    def remarks(self) -> list[str]:
        """Returns a sentence for each kind of repair, with the first locations."""
        return [
            f"{REMARKS[name]}: {count:,} ({self._where(name, count)})"
            for name, count in self.summary().items()
        ]

    def expect_text(self) -> None:
        """Raises InputError if no line of text was read."""
        if not any(self.text_lines.values()):
            count = self.counts["empty_files"] + len(self._silent_files())
            paths = [place.path for place in self.places.get("empty_files", ())]
            names = _first([*paths, *self._silent_files()], count) if count else "no files"
            dropped = [name for name in self.counts if name.endswith("_dropped")]
            if dropped:
                names = "; ".join(
                    f"{REMARKS[name]}: {self.counts[name]:,} ({self._where(name, NUM_PLACES)})"
                    for name in dropped
                )
                names += "; --errors fail tells why"
            raise InputError(f"the corpus holds no text ({names}); expected one paragraph a line")

    def _silent_files(self) -> list[str]:
        return [path for path, count in self.text_lines.items() if not count]

    def _where(self, name: str, count: int) -> str:
        if name == "files_without_text":
            return _first(self._silent_files(), count)
        places = self.places[name]
        if name == "empty_files":
            return _first([place.path for place in places], count)
        return _first([place.described() for place in places], count)


def _first(names: list[str], count: int) -> str:
    return "; ".join(names[:NUM_PLACES]) + ("; ..." if count > NUM_PLACES else "")


ERRORS = ("fail", "skip", "replace")
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
        self._note_oddities(block, number, step)
        block = block.removesuffix(b"\n")
        try:
            texts = block.decode().split("\n")
        except UnicodeDecodeError:
            raws = enumerate(block.split(b"\n"))
            decoded = (self.text(raw, number + step * place) for place, raw in raws)
            texts = [text for text in decoded if text is not None]
        return [text.strip() for text in texts]

    def text(self, raw: bytes, number: int) -> str | None:
        """Decodes line `number`; returns None if the line is dropped."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            place = self.place(number)
            if self.errors == "fail":
                raise InputError(
                    f"{place.described()} is not UTF-8 (byte {raw[error.start]:#04x} at column "
                    f"{error.start + 1}); convert the file to UTF-8, or drop such lines with "
                    "--errors skip, or keep them with --errors replace"
                ) from error
            if self.errors == "skip":
                self.repairs.note("lines_not_utf8_dropped", place)
                return None
            self.repairs.note("lines_not_utf8_replaced", place)
            return raw.decode(errors="replace")

    def document(self, text: bytes, number: int) -> Iterator[list[str]]:
        """Yields the lines of a record, then [""]; blank lines in it do not end a document."""
        is_silent = True
        for block, part in blocks(io.BytesIO(text)):
            if part == 1:
                self.repairs.note("long_lines_cut", self.place(number))
            lines = [line for line in self.lines(block, number, step=0) if line]
            is_silent = is_silent and not lines
            yield lines
        if is_silent:
            self.repairs.note("records_without_text", self.place(number))
        yield [""]

    def drop(self, number: int, what: str) -> None:
        """Drops a record, or raises InputError if `errors` is "fail"; `what` is the reason."""
        place = self.place(number)
        if self.errors == "fail":
            raise InputError(
                f"{place.described()} {what}; mend it, or drop such records with --errors skip"
            )
        self.repairs.note("records_damaged_dropped", place)

    def place(self, number: int) -> Place:
        return Place(self.path, number, self.noun, self.start)

    def _note_oddities(self, block: bytes, number: int, step: int) -> None:
        for name, pattern, count in (
            ("control_characters", _CONTROL, len(block) - len(block.translate(None, _CONTROLS))),
            ("lone_carriage_returns", _LONE_RETURN, block.count(b"\r") - block.count(b"\r\n")),
        ):
            if count and (first := pattern.search(block)):
                at = number + step * block.count(b"\n", 0, first.start())
                self.repairs.note(name, self.place(at), count=count)
