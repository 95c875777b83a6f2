"""What a user names as a corpus comes in; its files, in a fixed order, and their digests go out."""

import glob
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from bert_keras.errors import InputError
from bert_keras.remote import FileSystem, file_system, raised
from bert_keras.storage import is_remote, open_file

TFDS = "tfds:"  # begins the name of a TensorFlow dataset
_NOTES = (".", "_")  # begin the names of files that are notes of other programs


def files(places: Sequence[str | os.PathLike]) -> list[str]:
    """Every file meant by files, folders, globs and remote paths; tfds: names stay as they are.

    Places keep their order; what a folder or a glob holds is sorted by path. In folders, names
    that begin with "." or "_" are left out, as the notes of other programs. Raises InputError for
    what does not exist or holds no files.
    """
    found: list[str] = []
    for place in map(os.fspath, places):
        found += [place] if place.startswith(TFDS) else _files_of(place)
    if not found:
        raise InputError("the corpus is empty: no files were named; name files, folders or globs")
    return found


def _files_of(place: str) -> list[str]:
    system = file_system(place) if is_remote(place) else _LOCAL
    try:
        if system.isdir(place):
            return _files_below(place, system)
        if system.exists(place):
            return [_regular(place)]
        matches = sorted(system.glob(place)) if glob.has_magic(place) else []
        if not matches:
            kind = "matches no file" if glob.has_magic(place) else "does not exist"
            raise InputError(f"{place} {kind}; expected a file, a folder or a glob of text")
        below = (
            _files_below(match, system) if system.isdir(match) else [_regular(match)]
            for match in matches
        )
        return list(dict.fromkeys(chain.from_iterable(below)))  # ** matches folders and files
    except Exception as error:
        if not is_remote(place) or isinstance(error, InputError):
            raise
        raise InputError(f"{place} cannot be reached through {system.whose} ({error})") from error


def _local_status(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


_LOCAL = FileSystem(
    "this machine",
    os.path.exists,
    os.path.isdir,
    partial(os.walk, onerror=raised, followlinks=True),
    partial(glob.glob, recursive=True),
    partial(open, mode="rb"),
    _local_status,
)


def _files_below(folder: str, system: FileSystem) -> list[str]:
    found = sorted(_seen(folder, system))
    if not found:
        raise InputError(f"{folder} is a folder without files; expected text files in it")
    return found


def _seen(folder: str, system: FileSystem) -> Iterator[str]:
    entered = set()
    for inside, folders, names in system.walk(folder):
        real = inside if is_remote(inside) else os.path.realpath(inside)
        if real in entered:
            raise InputError(
                f"{inside} leads to {real}, which {folder} holds already; take one out"
            )
        entered.add(real)
        folders[:] = [name for name in folders if not name.startswith(_NOTES)]
        for name in names:
            if not any(part.startswith(_NOTES) for part in name.split("/")):
                yield _regular(f"{inside.rstrip('/')}/{name}")


def _regular(path: str) -> str:
    if not is_remote(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError(
            f"{path} is a pipe or a device, which cannot be read twice; write it to a file first"
        )
    return path


def fingerprint(path: str) -> dict:
    """What tells without reading that a file was changed: its "bytes" and "modified" (ns)."""
    num_bytes, modified = (file_system(path) if is_remote(path) else _LOCAL).status(path)
    return {"path": path, "bytes": num_bytes, "modified": modified}


def digest(path: str) -> dict:
    """What the manifest says of a file: its "path", "bytes" and "sha256"."""
    with open_file(path) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return {"path": path, "bytes": file.tell(), "sha256": sha256}
