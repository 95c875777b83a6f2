"""Reads the text of files in parts: plain text, wikiextractor, JSON lines, parquet and TFDS.

A reader yields stripped lines; "" ends a document, which belongs to the part in which it begins. A
prepared TensorFlow dataset (TFDS) is named by `tfds:NAME[/CONFIG][:VERSION][?split=SPLIT]`, as in
`tfds:wikipedia/20230601.en`, or by `tfds:FOLDER`. Splits are such as `train[:10%]`.
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

from bert_keras.errors import InputError, check_name, quoted, require
from bert_keras.files import is_remote, open_file, utf8_error

READ_BYTES = 1 << 18  # size of a block that is read or decompressed
MAX_LINE = 1 << 26  # bytes; a small compressed file can have a line that fills the memory
TFDS = "tfds:"  # prefix of the name of a dataset
_MAX_PARTS_PER_SHARD = 8  # a part reads and skips the preceding examples of its shard
_EXAMPLES_PER_BATCH = 64  # decoded together
_TABLE_BUFFER_BYTES = 1 << 20  # limits the memory for a column of a parquet file
_ROWS_PER_BATCH = 16  # decoded together
_NOUNS = {"parquet": "row", "tfds": "example"}  # format -> noun; other formats have lines
Item = TypeVar("Item")
# A document starts where group 1 ends. For "text", group 1 is a blank line, in a lookahead because
# its line feed also begins the next match. Longer blank lines separate documents, too, but are not
# matched, so that the length of a match is limited.
DOCUMENT_STARTS = {
    "text": re.compile(rb"\n(?=([ \t\r]{0,64}\n))"),
    "wikiextractor": re.compile(rb"\n()(?=<doc id=)"),
    "jsonl": re.compile(rb"\n()"),
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_MATCH_BYTES = 80  # at least the length of a match with its lookahead
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
    """A part of a file: a byte range, a whole compressed file, row groups or TFDS examples."""

    path: str
    format: str  # a key of `READERS`
    start: int  # byte, row group or example
    end: int
    num_bytes: int  # size of the part in the file, for progress bars
    text_field: str = "text"  # the field of JSON lines, parquet or TFDS that has the text


Unit = tuple[FilePart, ...]  # the parts that one job reads


def num_bytes_of(unit: Unit) -> int:
    """Returns the number of bytes of a unit, for progress bars."""
    return sum(part.num_bytes for part in unit)


def group_items(
    items: Iterable[Item], *, size_of: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Yields lists of adjacent items of a total size up to `most`; a larger item is alone."""
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
    """Decodes a line at a byte `position`, or the row or example of that number, from 1."""
    if len(raw) > MAX_LINE:
        raise InputError(f"{_location(part, position)} is over {MAX_LINE:,} bytes long; divide it")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise utf8_error(_location(part, position), error) from error


def lines_of_record(raw: bytes, part: FilePart, position: int) -> Iterator[str]:
    """Yields the lines of a record, then ""; blank lines in it do not end a document."""
    yield from filter(None, map(_stripped, decode_text(raw, part, position).split("\n")))
    yield ""


def _stripped(line: str) -> str:
    """Strips a line and composes its characters, because a cased vocabulary has composed ones."""
    return unicodedata.normalize("NFC", line).strip()


def _location(part: FilePart, position: int) -> str:
    if noun := _NOUNS.get(part.format):
        return f"{part.path}, {noun} {position:,}"
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
    """Reads JSON lines: the text of each object is a document; blank lines do not end it."""
    for position, line in _lines(part):
        if not line.strip():
            continue
        source = decode_text(line, part, position)
        try:
            text = json.loads(source)[part.text_field] or ""
            # JSON can contain half of a surrogate pair, which is refused like other bad UTF-8.
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
        position, end = 0, math.inf
        if not compression_of(part.path):
            size, pattern = file.seek(0, os.SEEK_END), DOCUMENT_STARTS[part.format]
            position = _first_start(file, part.start, part.end, pattern) if part.start else 0
            # A document that begins before part.end may end after it: at the first start from
            # part.end on. If position == part.end, no document begins in this part.
            end = part.end if position == part.end else _first_start(file, part.end, size, pattern)
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
            if offset + match.end(1) >= start:
                return min(offset + match.end(1), end)
        offset += max(0, len(data) - _MAX_MATCH_BYTES)
        data = data[-_MAX_MATCH_BYTES:]
    return end


def row_group_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent row groups, each of up to `unit_bytes` of text in storage."""
    with _open_table(path) as table:
        metadata = table.metadata
        check_name(text_field, table.schema_arrow.names, what=f"field (--text-field) of {path}")
        columns = [table.schema.column(index).path for index in range(len(table.schema))]
        column = next(n for n, path in enumerate(columns) if path.split(".")[0] == text_field)
        groups = range(metadata.num_row_groups)
        sizes = [metadata.row_group(n).column(column).total_compressed_size for n in groups]
    for group in group_items(groups, size_of=sizes.__getitem__, most=unit_bytes):
        start, end = group[0], group[-1] + 1
        yield FilePart(path, "parquet", start, end, sum(sizes[start:end]), text_field)


def read_rows(part: FilePart) -> Iterator[str]:
    """Reads rows: the text of each is a document; blank lines do not end it."""
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


def example_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent examples, each of up to `unit_bytes` in storage."""
    import tensorflow_datasets as tfds

    builder, split = _builder_and_split(path)
    check_name(text_field, builder.info.features or (), what=f"field (--text-field) of {path}")
    for part in tfds.core.ReadInstruction.from_spec(split).to_absolute(builder.info.splits):
        info = builder.info.splits[part.splitname]
        split_path = f"{path.partition('?')[0]}?split={part.splitname}"
        last = info.num_examples if part.to is None else part.to
        mean = info.num_bytes / max(1, info.num_examples)
        shard_end = 0
        for shard in info.shard_lengths:
            shard_start, shard_end = shard_end, shard_end + shard
            step = max(1, int(unit_bytes / max(1, mean)), -(-shard // _MAX_PARTS_PER_SHARD))
            for start in range(shard_start, shard_end, step):
                first = max(start, part.from_ or 0)
                end = min(start + step, shard_end, last)
                if first < end:
                    size = max(1, round(mean * (end - first)))
                    yield FilePart(split_path, "tfds", first, end, size, text_field)


def read_examples(part: FilePart) -> Iterator[str]:
    """Reads examples: the text of each is a document; blank lines do not end it."""
    builder, split = _builder_and_split(part.path)
    import tensorflow_datasets as tfds

    texts = builder.as_dataset(
        split=tfds.core.ReadInstruction(split, from_=part.start, to=part.end, unit="abs"),
        decoders=tfds.decode.PartialDecoding({part.text_field: True}),
        read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
    )
    example_number = part.start + 1
    for batch in texts.map(lambda example: example[part.text_field]).batch(_EXAMPLES_PER_BATCH):
        for text in batch.numpy():
            yield from lines_of_record(text, part, example_number)
            example_number += 1


def split_files(path: str) -> tuple[str, list[str]]:
    """Returns TFDS' description file of a data set, and the files of its examples."""
    builder, split = _builder_and_split(path)
    description = os.path.join(builder.data_dir, "dataset_info.json")
    return description, list(map(str, builder.info.splits[split].filepaths))


def _builder_and_split(path: str) -> tuple[Any, str]:
    """Returns the builder of a prepared dataset and the named split."""
    require("tensorflow", what=path)
    import tensorflow_datasets as tfds

    name, _, split = path.removeprefix(TFDS).partition("?split=")
    if is_remote(name) or os.path.isfile(os.path.join(name, "dataset_info.json")):
        builder = tfds.builder_from_directory(name)
    else:
        builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
    splits = builder.info.splits
    if not splits or (not split and len(splits) != 1):
        none = f"{builder.data_dir} has no prepared dataset; set TFDS_DATA_DIR"
        several = f"{path} has several splits: {', '.join(splits)}; choose one with ?split=SPLIT"
        raise InputError(several if splits else none)
    return builder, split or next(iter(splits))


READERS: dict[str, Callable[[FilePart], Iterator[str]]] = {
    "text": read_plain_text,
    "wikiextractor": read_articles,
    "jsonl": read_json_lines,
    "parquet": read_rows,
    "tfds": read_examples,
}
