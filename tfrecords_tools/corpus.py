"""Finds the files of a corpus, divides them into units of work and reads the lines of a unit."""

import contextlib
import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from bert_keras.errors import InputError
from bert_keras.files import StrPath, file_sha256, file_system, is_remote
from tfrecords_tools import readers
from tfrecords_tools.readers import FilePart, Unit

_SKIPPED = (".", "_")  # prefixes of files and folders that other programs write
UNIT_BYTES = 1 << 20  # larger if a build has more than MAX_UNITS units
MAX_UNITS = 1000


def corpus_files(corpus: Sequence[StrPath]) -> list[str]:
    """Returns the paths of all files that files, folders, globs and URLs name.

    The order of the names is kept; the files of a folder are sorted.
    """
    paths: list[str] = []
    for name in [os.fspath(name) for name in corpus]:
        groups = _remote_matches(name) if is_remote(name) else _local_matches(name)
        # With **, a pattern matches folders and the files in them.
        matches = dict.fromkeys(path for group in groups for path in sorted(group))
        if not matches:
            raise InputError(f"{name} does not exist or has no files; expected files of text")
        paths += matches
    found: dict[str, str] = {}
    for path in paths:
        _check_new(path, found)
    return paths


def check_outside(output: StrPath, corpus: Sequence[StrPath]) -> None:
    """Raises InputError if `output` is in a folder of the corpus, which would read it next time."""
    corpus_paths = {*map(Path.resolve, map(Path, corpus))}
    if folders := corpus_paths & {*Path(output).resolve().parents}:
        raise InputError(f"{output} is in {folders.pop()}, a corpus folder; choose another")


def _check_new(path: str, found: dict[str, str]) -> None:
    """Adds a path to `found`, by its real path; raises InputError if that is in it already."""
    if (same := found.setdefault(os.path.realpath(path), path)) is not path:
        raise InputError(f"{path} is twice in the corpus, also as {same}; name each file once")


def _local_matches(pattern: str) -> Iterator[list[str]]:
    """Yields a list of files for each file or folder that a pattern matches."""

    def stop(error: OSError) -> NoReturn:  # os.walk ignores folders that cannot be read
        raise error

    matches: dict[str, str] = {}
    for match in [pattern] if os.path.exists(pattern) else glob.iglob(pattern, recursive=True):
        _check_new(match, matches)  # links that form a circle have no end
    for match in sorted(matches.values()):
        paths, found = [match], {}
        if os.path.isdir(match):
            paths = []
            for folder, folders, names in os.walk(match, onerror=stop, followlinks=True):
                _check_new(folder, found)
                folders[:] = [name for name in folders if not name.startswith(_SKIPPED)]
                names = [name for name in names if not name.startswith(_SKIPPED)]
                paths += [os.path.join(folder, name) for name in names]
        yield paths


def _remote_matches(pattern: str) -> Iterator[list[str]]:
    """Yields a list of URLs for each file or folder that the URL `pattern` matches."""
    system, path = file_system(pattern)
    is_glob = glob.has_magic(path) and not system.exists(path)
    for match in sorted(system.glob(path)) if is_glob else [path] * system.exists(path):
        paths = system.find(match) if system.isdir(match) else [match]
        kept = [path for path in paths if not re.search("(^|/)[._]", path[len(match) :])]
        yield [system.unstrip_protocol(path) for path in kept]


def size_of(path: str) -> int:
    """Returns the size of an input in bytes."""
    if is_remote(path):
        system, name = file_system(path)
        return system.size(name)
    return os.path.getsize(path)


def input_entry(path: str) -> dict[str, Any]:
    """Returns the entry of an input in the manifest: "path", "bytes" and "sha256"."""
    return {"path": path, "bytes": size_of(path), "sha256": file_sha256(path)}


def divide_into_units(
    corpus: Sequence[StrPath], *, unit_bytes: int, text_field: str = "text"
) -> list[Unit]:
    """Divides a corpus into units of about `unit_bytes`, in a fixed order."""
    parts: list[FilePart] = []
    for path in corpus_files(corpus):
        with named_errors(path):
            size, file_format = size_of(path), readers.file_format(path)
            if file_format == "parquet":
                options = {"unit_bytes": unit_bytes, "text_field": text_field}
                parts += readers.row_group_parts(path, **options)
                continue
            step = max(1, size if readers.compression_of(path) else unit_bytes)
            for start in range(0, max(1, size), step):
                end = min(start + step, size)
                parts.append(FilePart(path, file_format, start, end, end - start, text_field))
    groups = readers.group_items(parts, size_of=lambda part: part.num_bytes, most=unit_bytes)
    return list(map(tuple, groups))


def build_units(paths: Sequence[str], *, text_field: str) -> list[Unit]:
    """Divides the corpus of a build; unit indices are part of the records' seeds."""
    unit_bytes = max(UNIT_BYTES, sum(map(size_of, paths)) // MAX_UNITS)
    return divide_into_units(paths, unit_bytes=unit_bytes, text_field=text_field)


@contextlib.contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Names the file in errors of gzip, bz2, lzma, zstd or pyarrow."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.filename):
            raise
        end = "" if type(error) is ValueError else "; is it complete?"  # not of a subclass
        raise InputError(f"{path} cannot be read ({type(error).__name__}: {error}){end}") from error


def lines_of(unit: Unit) -> Iterator[str]:
    """Yields the stripped lines of a unit, with one "" after each document and file."""
    for part in unit:
        is_in_document = False
        with named_errors(part.path):
            for line in readers.READERS[part.format](part):
                if line or is_in_document:
                    yield line
                is_in_document = bool(line)
        if is_in_document:
            yield ""


def read_documents(corpus: Sequence[StrPath], *, stage: str) -> Iterator[list[str]]:
    """Yields the list of lines of each document of a whole corpus, with a progress bar."""
    document: list[str] = []
    for unit in tqdm(divide_into_units(corpus, unit_bytes=UNIT_BYTES), desc=stage, unit=" MB"):
        for line in lines_of(unit):
            if line:
                document.append(line)
            else:
                yield document
                document = []
