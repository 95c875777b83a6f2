"""Finds the files, folders, globs and URLs that a user names as a corpus, and their digests."""

import glob
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import NoReturn

from bert_keras.errors import InputError
from bert_keras.storage import file_system, is_remote, open_file, remote_errors

TFDS = "tfds:"  # prefix of the name of a TensorFlow dataset
_NOTES = (".", "_")  # prefixes of files and folders that other programs write


def files(places: Sequence[str | os.PathLike]) -> list[str]:
    """Returns all files of a corpus.

    The order of `places` is kept; the files of a folder or a glob are sorted by path. In folders,
    names that begin with "." or "_" are skipped, because other programs write such files.

    Args:
        places: Files, folders, globs and URLs. Names that begin with "tfds:" are returned
            unchanged.

    Raises:
        InputError: A file does not exist, or there are no files.
    """
    found: list[str] = []
    for place in [os.fspath(place) for place in places]:
        found += [place] if place.startswith(TFDS) else _files_of(place)
    if not found:
        raise InputError("the corpus is empty: no files were named; name files, folders or globs")
    return found


def _files_of(place: str) -> list[str]:
    remote = is_remote(place)
    matches = _remote_matches(place) if remote else _local_matches(place)
    if not matches:
        kind = "matches no file" if glob.has_magic(place) else "does not exist"
        raise InputError(f"{place} {kind}; expected a file, a folder or a glob of text")
    found: dict[str, None] = {}  # ** matches folders and the files in them
    for match in matches:
        inside = _remote_files(match) if remote else _local_files(match)
        if not inside:
            raise InputError(f"{match} is a folder without files; expected text files in it")
        found |= dict.fromkeys(sorted(inside))
    return list(found)


def _local_matches(place: str) -> list[str]:
    if os.path.exists(place):
        return [place]
    return sorted(glob.glob(place, recursive=True)) if glob.has_magic(place) else []


def _local_files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [_regular(path)]
    found, entered = [], set()
    for inside, folders, names in os.walk(path, onerror=_raise, followlinks=True):
        real = os.path.realpath(inside)
        if real in entered:
            raise InputError(f"{inside} leads to {real}, which {path} holds already; take one out")
        entered.add(real)
        folders[:] = [name for name in folders if not name.startswith(_NOTES)]
        paths = (os.path.join(inside, name) for name in names if not name.startswith(_NOTES))
        found += map(_regular, paths)
    return found


def _raise(error: OSError) -> NoReturn:
    """Raises the error of a folder that cannot be read, which os.walk would ignore."""
    raise error


def _regular(path: str) -> str:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError(
            f"{path} is a pipe or a device, which cannot be read twice; write it to a file first"
        )
    return path


def _remote_matches(url: str) -> list[str]:
    with remote_errors(url):
        system, path = file_system(url)
        if system.exists(path):
            return [url]
        found = sorted(system.glob(path)) if glob.has_magic(path) else []
    if "/." not in path:  # as in Python's glob, neither * nor ** matches a leading dot
        found = [each for each in found if "/." not in each]
    return [_url_of(each, url, path) for each in found]


def _remote_files(url: str) -> list[str]:
    with remote_errors(url):
        system, path = file_system(url)
        if not system.isdir(path):
            return [url]
        found = system.find(path)
    inside = len(path.rstrip("/")) + 1
    found = [
        each
        for each in found
        if not any(name.startswith(_NOTES) for name in each[inside:].split("/"))
    ]
    return [_url_of(each, url, path) for each in found]


def _url_of(found: str, url: str, path: str) -> str:
    """Returns the URL of the path `found`, if `url` has the path `path` in its file system."""
    return url.rstrip("/").removesuffix(path.strip("/")) + found.lstrip("/")


def fingerprint(path: str) -> dict:
    """Returns "path", "bytes" and "modified" (ns), which change if the file is changed."""
    if is_remote(path):
        with remote_errors(path):
            system, name = file_system(path)
            num_bytes, modified = system.size(name), system.modified(name).timestamp()
        return {"path": path, "bytes": num_bytes, "modified": round(modified * 1e9)}
    status = os.stat(path)
    return {"path": path, "bytes": status.st_size, "modified": status.st_mtime_ns}


def digest(path: str) -> dict:
    """Returns the entry of a file in the manifest: "path", "bytes" and "sha256"."""
    with open_file(path) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return {"path": path, "bytes": file.tell(), "sha256": sha256}
