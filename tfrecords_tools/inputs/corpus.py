"""Finds the files of a corpus, divides them into units of work and reads the lines of a unit.

A document is never divided between two units.
"""

import contextlib
import glob
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from tqdm import tqdm

from bert_keras.errors import InputError, check
from bert_keras.files import StrPath, file_system, is_remote, open_file
from tfrecords_tools.inputs import tables, text_files
from tfrecords_tools.inputs.tables import TFDS

_SKIPPED = (".", "_")  # prefixes of files and folders that other programs write
_UNIT_BYTES = 1 << 20  # if one process reads the corpus; the step of its progress bar
READERS: dict[str, Callable[[text_files.FilePart], Iterator[str]]] = {
    "text": text_files.plain_text,
    "wikiextractor": text_files.articles,
    "jsonl": text_files.json_lines,
    "parquet": tables.rows,
    "tfds": tables.examples,
}


def files(corpus: Sequence[StrPath]) -> list[str]:
    """Returns all files of a corpus in their order, those of a folder or a glob sorted by path.

    In folders, names that begin with "." or "_" are skipped, because other programs write such
    files. Names that begin with "tfds:" are returned unchanged. Raises InputError if there are no
    files, or one does not exist or occurs twice.
    """
    paths: list[str] = []
    for name in [os.fspath(name) for name in corpus]:
        paths += [name] if name.startswith(TFDS) else _files_of(name)
    check(paths, "the corpus is empty; name files, folders or globs")
    first: dict[str, str] = {}  # path by the file that it leads to
    for path in paths:
        file = path if is_remote(path) or path.startswith(TFDS) else os.path.realpath(path)
        same = first.setdefault(file, path)
        is_new = same is path
        check(is_new, f"the corpus contains {path} twice (also as {same}); name each file once")
    return paths


def _files_of(pattern: str) -> list[str]:
    """Returns the sorted files of each file and folder that a pattern matches."""
    find = _remote_matches if is_remote(pattern) else _local_matches
    paths: dict[str, None] = {}  # ** matches folders and the files in them
    for match, found in find(pattern):
        is_usable = found or match != pattern  # a glob may match empty folders
        check(is_usable, f"{match} is a folder without files; expected text files in it")
        paths |= dict.fromkeys(sorted(found))
    problem = "matches no file" if glob.has_magic(pattern) else "does not exist"
    check(paths, f"{pattern} {problem}; expected a file, a folder or a glob of text")
    return list(paths)


def _local_matches(pattern: str) -> Iterator[tuple[str, list[str]]]:
    matches = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
    for match in matches:
        found = [match]
        if os.path.isdir(match):
            found = []
            for folder, folders, names in os.walk(match, onerror=_raise, followlinks=True):
                folders[:] = [name for name in folders if not name.startswith(_SKIPPED)]
                names = [name for name in names if not name.startswith(_SKIPPED)]
                found += [os.path.join(folder, name) for name in names]
        elif not stat.S_ISREG(os.stat(match).st_mode):
            raise InputError(f"{match} is a pipe or a device, which cannot be read twice; copy it")
        yield match, found


def _raise(error: OSError) -> NoReturn:
    """Raises the error of a folder that cannot be read, which os.walk would ignore."""
    raise error


def _remote_matches(pattern: str) -> Iterator[tuple[str, list[str]]]:
    system, path = file_system(pattern)
    is_glob = glob.has_magic(path) and not system.exists(path)
    for match in sorted(system.glob(path)) if is_glob else [path] * system.exists(path):
        found = system.find(match) if system.isdir(match) else [match]
        kept = [
            system.unstrip_protocol(file)
            for file in found
            if not any(name.startswith(_SKIPPED) for name in file[len(match) :].split("/"))
        ]
        yield match, kept


def size_of(path: str) -> int:
    """Returns the number of bytes of an input."""
    if path.startswith(TFDS):
        return sum(map(size_of, tables.split_files(path)[1]))
    if is_remote(path):
        system, name = file_system(path)
        return system.size(name)
    return os.path.getsize(path)


def digest(path: str) -> dict[str, Any]:
    """Returns the entry of an input in the manifest: "path", "bytes" and "sha256"."""
    with open_file(tables.split_files(path)[0] if path.startswith(TFDS) else path) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": path, "bytes": size_of(path), "sha256": sha256}


def units(
    corpus: Sequence[StrPath], *, unit_bytes: int, text_field: str = "text"
) -> list[text_files.Unit]:
    """Divides a corpus into units of about `unit_bytes`, in a fixed order."""
    parts: list[text_files.FilePart] = []
    for path in files(corpus):
        with _named_errors(path):
            parts += _parts(path, unit_bytes=unit_bytes, text_field=text_field)
    return list(
        map(tuple, text_files.grouped(parts, size_of=lambda part: part.num_bytes, most=unit_bytes))
    )


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Names the file in errors of gzip, bz2, lzma, zstd, pyarrow or TFDS."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.filename):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} cannot be read ({reason}); is it complete?") from error


def _parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[text_files.FilePart]:
    if path.startswith(TFDS):
        return tables.example_parts(path, unit_bytes=unit_bytes, text_field=text_field)
    size, kind = size_of(path), text_files.format_of(path)
    if kind == "parquet":
        return tables.row_group_parts(path, unit_bytes=unit_bytes, text_field=text_field)
    step = max(1, size if text_files.compression_of(path) else unit_bytes)
    return (
        text_files.FilePart(
            path, kind, start, min(start + step, size), min(step, size - start), text_field
        )
        for start in range(0, max(1, size), step)
    )


def lines_of(unit: text_files.Unit) -> Iterator[str]:
    """Yields the stripped lines of a unit, with one "" after each document and file."""
    for part in unit:
        is_in_document = False
        with _named_errors(part.path):
            for line in READERS[part.kind](part):
                if line or is_in_document:
                    yield line
                is_in_document = bool(line)
        if is_in_document:
            yield ""


def documents(corpus: Sequence[StrPath], *, stage: str) -> Iterator[list[str]]:
    """Yields the list of lines of each document of a whole corpus, with a progress bar."""
    document: list[str] = []
    for unit in tqdm(units(corpus, unit_bytes=_UNIT_BYTES), desc=stage, unit=" MB"):
        for line in lines_of(unit):
            if line:
                document.append(line)
            else:
                yield document
                document = []
