"""Divides a corpus into units of work and reads the lines of text of a unit.

A unit is the part of the corpus that one job reads. A document is never divided between two units,
so the lines of all units in order are the lines of the corpus, however it is divided.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

from bert_keras.errors import InputError
from bert_keras.progress import progress
from tfrecords_tools.inputs import corpus_files, tfds_examples
from tfrecords_tools.inputs.decoding import ERRORS, Location, Repairs
from tfrecords_tools.inputs.formats import file_format
from tfrecords_tools.inputs.parquet_rows import row_group_parts, rows
from tfrecords_tools.inputs.parts import DOCUMENT_STARTS, FilePart, Unit, grouped, num_bytes_of
from tfrecords_tools.inputs.text_formats import articles, json_lines, plain_text

_UNIT_BYTES = 1 << 20  # if one process reads the corpus; the step of its progress bar
READERS: dict[str, Callable[..., Iterator[list[str]]]] = {
    "text": plain_text,
    "wikiextractor": articles,
    "jsonl": json_lines,
    "parquet": rows,
    "tfds": tfds_examples.examples,
}


def units(
    corpus: Sequence[str | os.PathLike], *, unit_bytes: int, text_field: str = "text"
) -> list[Unit]:
    """Divides a corpus into units of about `unit_bytes`, in a fixed order.

    Args:
        corpus: Files, folders, glob patterns, URLs or TFDS names.
        unit_bytes: The size of a unit.
        text_field: The field of JSON lines, parquet files and TFDS examples that contains the text.

    Raises:
        InputError: A file does not exist or is not text.
    """
    parts = (
        part
        for path in corpus_files.files(corpus)
        for part in _parts(path, unit_bytes=unit_bytes, text_field=text_field)
    )
    return list(map(tuple, grouped(parts, size_of=lambda part: part.num_bytes, most=unit_bytes)))


def lines_of(unit: Unit, *, repairs: Repairs, errors: str = "fail") -> Iterator[str]:
    """Yields the stripped lines of a unit, with one "" after each document.

    The end of a file ends a document.

    Args:
        unit: The unit.
        repairs: Receives the counts of dropped and repaired lines.
        errors: The treatment of lines that are not UTF-8: "fail", "skip" or "replace".

    Raises:
        InputError: A file cannot be read, or a line is not UTF-8 and `errors` is "fail".
    """
    if errors not in ERRORS:
        raise InputError(f'errors="{errors}" is unknown; expected one of {", ".join(ERRORS)}')
    for part in unit:
        if not part.num_bytes:
            repairs.note("empty_files", Location(part.path, 1))
            continue
        num_lines, is_in_document = 0, False
        for texts in READERS[part.format](part, repairs=repairs, errors=errors):
            for text in texts:
                if text:
                    yield text
                    num_lines += 1
                    is_in_document = True
                elif is_in_document:
                    yield ""
                    is_in_document = False
        if is_in_document:
            yield ""
        repairs.text_lines[part.path] += num_lines


def fingerprint(path: str) -> dict:
    """Returns `path`, `bytes` and `modified` (ns), which change if an input is changed."""
    return _module_of(path).fingerprint(path)


def digest(path: str) -> dict:
    """Returns the entry of an input in the manifest: `path`, `bytes` and `sha256`."""
    return _module_of(path).digest(path)


def _module_of(path: str) -> ModuleType:
    return tfds_examples if path.startswith(corpus_files.TFDS) else corpus_files


def _parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Returns the parts of a file.

    An empty file has one part too, so that it is counted when it is read.
    """
    if path.startswith(corpus_files.TFDS):
        return tfds_examples.example_parts(path, unit_bytes=unit_bytes, text_field=text_field)
    size = corpus_files.fingerprint(path)["bytes"]
    kind = file_format(path)
    if kind == "parquet":
        return row_group_parts(path, unit_bytes=unit_bytes, text_field=text_field)
    step = unit_bytes if kind in DOCUMENT_STARTS else max(1, size)
    return (
        FilePart(path, kind, start, min(start + step, size), min(step, size - start), text_field)
        for start in range(0, max(1, size), step)
    )


def lines(corpus: Sequence[str | os.PathLike], *, stage: str) -> Iterator[str]:
    """Yields the lines of a whole corpus with a progress bar; see `lines_of`.

    Raises:
        InputError: The corpus has no text.
    """
    repairs, all_units = Repairs(), units(corpus, unit_bytes=_UNIT_BYTES)
    total = sum(map(num_bytes_of, all_units))
    with progress(stage=stage, unit="B", total=total) as bar:
        for unit in all_units:
            yield from lines_of(unit, repairs=repairs)
            bar.update(num_bytes_of(unit))
    repairs.expect_text()


def documents(corpus: Sequence[str | os.PathLike], *, stage: str) -> Iterator[list[str]]:
    """Yields the list of lines of each document."""
    document: list[str] = []
    for line in lines(corpus, stage=stage):
        if line:
            document.append(line)
        else:
            yield document
            document = []
