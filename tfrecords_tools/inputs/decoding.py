"""Bytes of whole lines come in; stripped text goes out, what is wrong with it told or counted."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from bert_keras.errors import InputError
from tfrecords_tools.inputs.repairs import Place, Repairs
from tfrecords_tools.inputs.text_ranges import blocks

ERRORS = ("fail", "skip", "replace")
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r"})
_CONTROL = re.compile(b"[" + re.escape(_CONTROLS) + b"]")
_LONE_RETURN = re.compile(rb"\r(?!\n)")


@dataclass(frozen=True)
class Decoder:
    """For the lines, rows or examples of one file, numbered from 1, lines from byte `start` on.

    Only a line feed ends a line, and a carriage return before it belongs to that end, as in the
    original. `errors` says what happens to a line that is not UTF-8: "fail" raises an InputError,
    "skip" drops the line, "replace" puts U+FFFD in place of what cannot be read.
    """

    path: str
    repairs: Repairs
    errors: str
    noun: str = "line"
    start: int = 0

    def lines(self, block: bytes, number: int, *, step: int = 1) -> list[str]:
        """The lines of a block, stripped. The first has `number`, the next `number + step`."""
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
        """What stands in line `number`, or None where it is dropped."""
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
        """Record `number`'s lines, then its end; a blank line in it is none of its ends."""
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
        """Record `number` cannot be read, and `what` says why."""
        place = self.place(number)
        if self.errors == "fail":
            raise InputError(
                f"{place.described()} {what}; mend it, or drop such records with --errors skip"
            )
        self.repairs.note("records_damaged_dropped", place)

    def place(self, number: int) -> Place:
        return Place(self.path, number, self.noun, self.start)

    def _note_oddities(self, block: bytes, number: int, step: int) -> None:
        controls = len(block) - len(block.translate(None, _CONTROLS))
        if controls:
            at = number + step * block.count(b"\n", 0, _CONTROL.search(block).start())
            self.repairs.note("control_characters", self.place(at), count=controls)
        returns = block.count(b"\r") - block.count(b"\r\n")
        if returns:
            at = number + step * block.count(b"\n", 0, _LONE_RETURN.search(block).start())
            self.repairs.note("lone_carriage_returns", self.place(at), count=returns)
