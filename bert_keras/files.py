"""Reads local and remote files, and writes files and folders completely or not at all."""

import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock, Timeout

from bert_keras.errors import InputError

StrPath = str | os.PathLike
_LOCK = ".lock"  # if a process is killed, the file remains, but its lock is released


def is_remote(path: StrPath) -> bool:
    """Returns whether a path is a URL such as gs://bucket/file, which fsspec opens."""
    return "://" in os.fspath(path)


def file_system(path: StrPath) -> tuple[Any, str]:
    """Returns fsspec's `AbstractFileSystem` of a path or URL, and the path in that file system."""
    from fsspec.core import url_to_fs

    system, name = url_to_fs(os.fspath(path))
    system.invalidate_cache()  # a listing in the cache would hide changes
    return system, name


def open_file(path: StrPath) -> io.BufferedReader:
    """Opens a local file or a URL as a seekable binary file."""
    if not is_remote(path):
        return existing_file(path).open("rb")
    system, name = file_system(path)
    return system.open(name, "rb", block_size=1 << 20)  # each block is a round trip


def check_exists(path: StrPath, *, expected: str) -> None:
    """Raises InputError, which suggests a similar path, if `path` does not exist."""
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist{near_path(path) or f'; expected {expected}'}")


def near_path(path: StrPath) -> str:
    """Returns "; did you mean 'PATH'?" with an existing path similar to a missing one, or ""."""
    whole, found = Path(os.path.abspath(path)), Path()
    if (old := whole.with_name(f".{whole.name}.part") / "old").exists():
        return f"; a process that was replacing it was killed; rename {old} to {path}"
    for name in Path(path).parts:
        if not os.path.exists(found / name):
            names = os.listdir(found) if found.is_dir() else []
            name = next(iter(get_close_matches(name, names, 1, 0.8)), name)
        found /= name
    return f"; did you mean {str(found)!r}?" if found.exists() else ""


def existing_file(path: StrPath) -> Path:
    """Returns `path` as a `Path`; raises InputError if it is missing, a pipe or a device."""
    check_exists(path, expected="a file")
    if not (os.path.isfile(path) or os.path.isdir(path)):  # opening a folder raises OSError
        raise InputError(f"{path} is a pipe or a device, which cannot be read twice; copy it")
    return Path(path)


def inner_path(folder: Path, name: str) -> Path:
    """Returns the path that a file of `folder` names; raises InputError if it is not in there."""
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise InputError(f"{folder} names {name}, which is outside of this folder; correct it")
    return folder / name


def text_lines(path: StrPath) -> Iterator[str]:
    """Yields the lines of a UTF-8 file without line ends and without a leading byte order mark."""
    with existing_file(path).open("rb") as file:
        first = file.readline()  # the whole file if its lines end in CR alone
        firsts = [first] if first.endswith(b"\n") else first.splitlines()
        for line_number, line in enumerate(itertools.chain(firsts, file), start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise utf8_error(f"{path}, line {line_number}", error) from error
            yield text.removeprefix("\ufeff" if line_number == 1 else "").rstrip("\r\n")


def utf8_error(location: str, error: UnicodeDecodeError) -> InputError:
    """Returns the error for the location of a text that is not UTF-8."""
    encoding = "LATIN1"
    with contextlib.suppress(UnicodeDecodeError):
        if re.search("[\uac00-\ud7a3]", error.object.decode("cp949")):
            encoding = "CP949"
    if error.object.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "UTF-16"
    remedy = f"convert the file: iconv -f {encoding} -t UTF-8 FILE > NEW_FILE"
    if b"\0" in error.object and encoding != "UTF-16":
        remedy = "expected a text file"
    return InputError(
        f"{location} is not UTF-8 (byte {error.object[error.start]:#04x} at column "
        f"{error.start + 1}); {remedy}"
    )


def json_object(path: StrPath) -> dict[str, Any]:
    """Reads a JSON file; raises InputError if it is missing or does not hold a JSON object."""
    path = existing_file(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"found a {type(values).__name__}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a valid JSON object ({error})") from error
    return values


def optional_json(path: Path) -> dict[str, Any]:
    """Reads a JSON file as `json_object` does; returns {} if there is none."""
    return json_object(path) if path.is_file() else {}


def file_sha256(path: StrPath) -> str:
    """Returns the SHA-256 of the content of a file as hexadecimal digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def readable_size(num_bytes: float) -> str:
    """Formats a size with a decimal unit, such as "12.3 kB"."""
    power = 0
    while num_bytes >= 1000 and power < 4:
        num_bytes, power = num_bytes / 1000, power + 1
    return f"{num_bytes:,.{min(power, 1)}f} {['bytes', 'kB', 'MB', 'GB', 'TB'][power]}"


def check_no_table(path: StrPath) -> None:
    """Raises InputError for the name of a table where plain text is expected."""
    if str(path).endswith((".csv", ".tsv", ".jsonl", ".json")):
        raise InputError(f"{path} is a table; expected plain text with one text on each line")


def check_output(path: StrPath, *, suffix: str | tuple[str, ...] = "") -> None:
    """Raises InputError, before long work, if the file `path` cannot be written."""
    if is_stdout(path) and isinstance(suffix, str):  # several suffixes choose the format
        return
    target = Path(os.path.realpath(path))
    is_taken = os.path.lexists(target) and (not target.is_file() or os.path.ismount(target))
    if is_taken or not os.fspath(path).endswith(suffix):
        ends = suffix if isinstance(suffix, str) else " or ".join(suffix)
        expected = f"a name that ends in {ends}" if suffix else "a file"
        raise InputError(f"{path}: expected {expected}, not a folder or a device")
    check_folder(target.parent)


def check_folder(folder: StrPath) -> None:
    """Raises InputError unless files can be created in a folder, which may not exist yet."""
    path = Path(folder).absolute()
    found = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not found.is_dir() or not os.access(found, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written, as {found} is not a folder or not writable")


def refuse_existing(
    path: StrPath, *, remedy: str = "remove it first", replaces: Sequence[str] = ()
) -> None:
    """Raises InputError unless `path` is absent or an empty folder, so that no result is lost.

    A folder may be replaced if it contains the first file of `replaces` and no files but these. A
    mount point, the working directory and a path whose parent is not writable are refused.
    """
    path = Path(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # or removed meanwhile
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
        is_fixed = not is_folder or os.path.ismount(path)
        names = set(os.listdir(path)) if is_folder else set()
        foreign = sorted(names - set(replaces))
        if is_fixed or foreign or (names and replaces[0] not in names) or path.samefile(os.curdir):
            found = f" and contains {foreign[0]}" if foreign else ""
            raise InputError(f"{path} exists already{found}; choose another name or {remedy}")
    check_folder(path.absolute().parent)


@contextlib.contextmanager
def _locked(lock: Path, *, output: StrPath) -> Iterator[None]:
    """Holds the lock of a file until the `with` block or the process ends."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock, timeout=0, mode=0o644).acquire()
    except (Timeout, FileNotFoundError, FileExistsError) as error:  # the other one ends just now
        raise InputError(f"another process is writing {output}; wait for it") from error
    with held:
        yield


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Holds the lock of an existing folder; raises InputError if another process holds it."""
    with _locked(folder / _LOCK, output=folder):
        try:
            yield
        finally:
            (folder / _LOCK).unlink(missing_ok=True)


def is_stdout(path: StrPath) -> bool:
    """Returns whether `path` names the standard output: "-" or "/dev/stdout"."""
    return os.fspath(path) in ("-", "/dev/stdout")


def messages_beside(path: StrPath | None) -> TextIO:
    """Returns the stream for messages of a command that writes `path`, which may be stdout."""
    return sys.stderr if path and is_stdout(path) else sys.stdout


@contextlib.contextmanager
def atomic_file(path: StrPath) -> Iterator[Path]:
    """Yields the path of a file beside `path`, which is renamed to `path` if the block succeeds.

    Otherwise the file is deleted, or overwritten by the next process if this one is killed. Missing
    parent folders are created. If `path` is a symbolic link, the file that it names is replaced;
    "-" and "/dev/stdout" are the standard output.
    """
    check_output(path)
    if is_stdout(path):
        with tempfile.TemporaryDirectory() as folder:
            yield (content := Path(folder) / "content")
            sys.stdout.flush()
            sys.stdout.buffer.write(content.read_bytes())
        return
    path = Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name}.part")
    with _locked(partial, output=path):
        try:
            yield partial
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def write_text(path: StrPath, text: str) -> None:
    """Writes a UTF-8 file as `atomic_file` does."""
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: StrPath, values: Any) -> None:
    """Writes values as an indented JSON file, as `atomic_file` does."""
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def atomic_folder(path: StrPath, *, replaces: Sequence[str] = ()) -> Iterator[Path]:
    """Yields an empty folder, which is renamed to `path` if the block succeeds.

    Otherwise it is deleted. An old folder that may be replaced (see `refuse_existing`) is first
    moved to `.NAME.part/old`, and deleted after the new folder has its name. If this process is
    killed in between, the next call moves it back.
    """
    path = Path(os.path.abspath(path))  # handles paths such as "new/.."
    with _folder_beside(path, f".{path.name}.part", "new", "old") as (new, old):
        try:
            _end_replacement(new, old, path)
            refuse_existing(path, replaces=replaces)
            new.mkdir()
            yield new
            refuse_existing(path, replaces=replaces)
            if path.exists():
                os.replace(path, old)
            os.replace(new, path)
        finally:
            _end_replacement(new, old, path)


def _end_replacement(new: Path, old: Path, path: Path) -> None:
    """Moves the old folder back if `path` is absent, and deletes the rest."""
    if old.exists() and not path.exists():
        os.replace(old, path)
    _delete(new)
    if old.exists():
        os.replace(old, new)  # a folder called `old` is always complete
        _delete(new)


class StoppedError(InputError):
    """An error after which a `resumed_folder` keeps its work, which the next call continues."""


@contextlib.contextmanager
def resumed_folder(path: StrPath) -> Iterator[tuple[Path, Path]]:
    """Yields the paths PATH.partial/work and PATH.partial/result, which the block creates.

    If the block succeeds, the result, a folder or a file, becomes `path`, and PATH.partial is
    deleted. Otherwise PATH.partial remains, and the next call continues in it. It is only deleted
    after an InputError in the call that created it, other than a `StoppedError`.
    """
    path = Path(os.path.abspath(path))
    with _folder_beside(path, f"{path.name}.partial", "work", "result") as (work, result):
        refuse_existing(path)
        is_new = not work.exists()
        try:
            yield work, result
        except InputError as error:
            if is_new and not isinstance(error, StoppedError):
                _delete(work)
            raise
        refuse_existing(path, remedy=f"remove it; the same call continues in {work.parent}")
        os.replace(result, path)
        _delete(work)


@contextlib.contextmanager
def _folder_beside(path: Path, name: str, *inner_names: str) -> Iterator[list[Path]]:
    """Locks a folder beside an output, yields paths in it, and deletes it if it is empty."""
    folder = path.with_name(name)
    refuse_existing(folder, remedy="move it", replaces=(_LOCK, *inner_names))
    with _locked(folder / _LOCK, output=path):
        try:
            yield [folder / each for each in inner_names]
        finally:
            with contextlib.suppress(OSError):  # another process waits, or files are in use
                if os.listdir(folder) == [_LOCK]:
                    (folder / _LOCK).unlink()
                    folder.rmdir()


def _delete(path: Path) -> None:
    """Deletes a folder, as far as possible, or a file."""
    shutil.rmtree(path, ignore_errors=True)
    if path.is_file():
        path.unlink()
