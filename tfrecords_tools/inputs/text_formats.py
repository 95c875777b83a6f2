"""Reads plain text, wikiextractor output and JSON lines as stripped lines; "" ends a document."""

import html
import json
import re
from collections.abc import Iterator

from tfrecords_tools.inputs.decoding import Decoder, Repairs
from tfrecords_tools.inputs.formats import BYTE_ORDER_MARK, open_decompressed
from tfrecords_tools.inputs.parts import LONGEST_LINE, FilePart, blocks, document_bytes

LONGEST_RECORD = 1 << 25  # bytes; a line of JSON cannot be read in parts
_TITLE = re.compile(r'title="(.*)"')


def plain_text(part: FilePart, *, repairs: Repairs, errors: str) -> Iterator[list[str]]:
    """Reads plain text: a line is a paragraph or a sentence, a blank line ends a document."""
    byte_range = document_bytes(part)
    decoder = Decoder(part.path, repairs, errors, start=byte_range.start)
    for block, line_part, number in _numbered_blocks(part, byte_range, longest=LONGEST_LINE):
        if line_part == 1:
            repairs.note("long_lines_cut", decoder.location(number))
        lines = decoder.lines(block, number)
        # white space within a divided line is not a blank line
        yield [line for line in lines if line] if line_part else lines


def articles(part: FilePart, *, repairs: Repairs, errors: str) -> Iterator[list[str]]:
    """Reads the text of wikiextractor: `<doc id= url= title=>`, the title, paragraphs, `</doc>`.

    An article is a document; blank lines do not end it. The line with the title is dropped, because
    it is not a sentence and wikiextractor's JSON does not contain it.
    """
    title = None
    for lines in plain_text(part, repairs=repairs, errors=errors):
        texts = []
        for line in lines:
            if line.startswith("<doc id="):
                match = _TITLE.search(line)
                title = html.unescape(match[1]) if match else None
                texts.append("")
            elif line == "</doc>":
                texts.append("")
            elif line:
                if line != title:
                    texts.append(line)
                title = None
        yield texts


def json_lines(part: FilePart, *, repairs: Repairs, errors: str) -> Iterator[list[str]]:
    """Reads JSON lines: the text of each object is a document; blank lines do not end it."""
    byte_range = document_bytes(part)
    decoder = Decoder(part.path, repairs, errors, start=byte_range.start)
    for block, line_part, number in _numbered_blocks(part, byte_range, longest=LONGEST_RECORD):
        if line_part == 1:
            decoder.drop(number, f"is longer than {LONGEST_RECORD:,} bytes")
        if not line_part:
            for line_number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), number):
                if line.strip():
                    yield from _record(line, line_number, decoder, part.text_field)


def _record(line: bytes, number: int, decoder: Decoder, text_field: str) -> Iterator[list[str]]:
    source = decoder.text(line, number)
    if source is None:
        return
    try:
        record = json.loads(source)
    except (ValueError, RecursionError) as error:
        decoder.drop(number, f"is not a JSON object ({error})")
        return
    if not isinstance(record, dict):
        decoder.drop(number, "is not a JSON object")
    elif text_field not in record:
        fields = ", ".join(record) or "none"
        decoder.drop(number, f'has no field "{text_field}" (fields: {fields}; see --text-field)')
    elif not isinstance(record[text_field], str | None):
        kind = type(record[text_field]).__name__
        decoder.drop(number, f'has a "{text_field}" of the type {kind}, not a string')
    else:
        # JSON can spell half of a surrogate pair; as bytes it is treated as any other bad UTF-8
        text = (record[text_field] or "").encode("utf-8", "surrogatepass")
        yield from decoder.document(text, number)


def _numbered_blocks(
    part: FilePart, byte_range: range, *, longest: int
) -> Iterator[tuple[bytes, int, int]]:
    """Yields blocks, their part numbers (see `blocks`) and the number of their first line.

    Lines are counted from the beginning of the part.
    """
    if not part.compression and not byte_range:
        return
    num_bytes = None if part.compression else len(byte_range)
    number, mark = 1, b"" if byte_range.start else BYTE_ORDER_MARK
    with open_decompressed(part.path, part.compression) as file:
        file.seek(byte_range.start)
        for block, line_part in blocks(file, num_bytes=num_bytes, longest=longest):
            yield block.removeprefix(mark), line_part, number
            number += block.count(b"\n")
            mark = b""
