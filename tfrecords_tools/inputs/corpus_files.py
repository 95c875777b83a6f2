"""Finds the files, folders, globs and URLs that a user names as a corpus, and their digests."""

import glob
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import NoReturn

from bert_keras.errors import InputError
from bert_keras.files import file_system, is_remote, open_file

TFDS = "tfds:"  # prefix of the name of a TensorFlow dataset
_SKIPPED = (".", "_")  # prefixes of files and folders that other programs write


def files(corpus: Sequence[str | os.PathLike]) -> list[str]:
    """Returns all files of a corpus.

    The order of `corpus` is kept; the files of a folder or a glob are sorted by path. In folders,
    names that begin with "." or "_" are skipped, because other programs write such files.

    Args:
        corpus: Files, folders, globs and URLs. Names that begin with "tfds:" are returned
            unchanged.

    Raises:
        InputError: A file does not exist, or there are no files, or a file occurs twice.
    """
    paths: list[str] = []
    for name in [os.fspath(name) for name in corpus]:
        paths += [name] if name.startswith(TFDS) else _files_of(name)
    if not paths:
        raise InputError("the corpus is empty; name files, folders or globs")
    first: dict[str, str] = {}  # path by the file that it leads to
    for path in paths:
        file = path if is_remote(path) or path.startswith(TFDS) else os.path.realpath(path)
        if file in first:
            raise InputError(
                f"the corpus contains {path} twice (also as {first[file]}); name each file once"
            )
        first[file] = path
    return paths


def _files_of(pattern: str) -> list[str]:
    remote = is_remote(pattern)
    matches = _remote_matches(pattern) if remote else _local_matches(pattern)
    if not matches:
        problem = "matches no file" if glob.has_magic(pattern) else "does not exist"
        raise InputError(f"{pattern} {problem}; expected a file, a folder or a glob of text")
    paths: dict[str, None] = {}  # ** matches folders and the files in them
    for match in matches:
        contents = _remote_files(match) if remote else _local_files(match)
        if not contents:
            raise InputError(f"{match} is a folder without files; expected text files in it")
        paths |= dict.fromkeys(sorted(contents))
    return list(paths)


def _local_matches(pattern: str) -> list[str]:
    if os.path.exists(pattern):
        return [pattern]
    return sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else []


def _local_files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [_regular(path)]
    files, visited = [], set()
    for folder, folders, names in os.walk(path, onerror=_raise, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:
            raise InputError(
                f"{folder} links to {real}, which {path} also contains; remove one of them"
            )
        visited.add(real)
        folders[:] = [name for name in folders if not name.startswith(_SKIPPED)]
        paths = (os.path.join(folder, name) for name in names if not name.startswith(_SKIPPED))
        files += map(_regular, paths)
    return files


def _raise(error: OSError) -> NoReturn:
    """Raises the error of a folder that cannot be read, which os.walk would ignore."""
    raise error


def _regular(path: str) -> str:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError(
            f"{path} is a pipe or a device, which cannot be read twice; copy it to a file first"
        )
    return path


def _remote_matches(url: str) -> list[str]:
    system, path = file_system(url)
    if system.exists(path):
        return [url]
    matches = sorted(system.glob(path)) if glob.has_magic(path) else []
    # As in Python's glob, neither * nor ** matches a leading dot.
    return [_url_of(match, url, path) for match in matches if "/." in path or "/." not in match]


def _remote_files(url: str) -> list[str]:
    system, path = file_system(url)
    if not system.isdir(path):
        return [url]
    files = system.find(path)
    start = len(path.rstrip("/")) + 1
    return [
        _url_of(file, url, path)
        for file in files
        if not any(name.startswith(_SKIPPED) for name in file[start:].split("/"))
    ]


def _url_of(file: str, url: str, path: str) -> str:
    """Returns the URL of the path `file`, if `url` has the path `path` in its file system."""
    return url.rstrip("/").removesuffix(path.strip("/")) + file.lstrip("/")


def fingerprint(path: str) -> dict:
    """Returns "path", "bytes" and "modified" (ns), which change if the file is changed."""
    if is_remote(path):
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
