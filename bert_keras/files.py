"""Reads local and remote files, and writes files and folders as a whole or not at all."""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock, Timeout

from bert_keras.errors import InputError, check

StrPath = str | os.PathLike
LOCK = ".lock"  # the file of `locked_folder`; it stays when a process is killed, and is free then


def is_remote(path: StrPath) -> bool:
    """Returns whether a path is a URL such as gs://bucket/file, which fsspec opens."""
    return "://" in os.fspath(path)


def file_system(path: StrPath) -> tuple[Any, str]:
    """Returns fsspec's `AbstractFileSystem` of a path or URL, and the path in that file system.

    Raises:
        InputError: fsspec does not know the scheme, or its driver is not installed.
    """
    from fsspec.core import url_to_fs

    try:
        system, name = url_to_fs(os.fspath(path))
    except (ImportError, ValueError) as error:
        raise InputError(
            f"{os.fspath(path)} cannot be reached: {error}; install the fsspec driver of its "
            'scheme, such as "pip install gcsfs" for gs:// or "pip install s3fs" for s3://'
        ) from error
    system.invalidate_cache()  # a listing in the cache would hide changes
    return system, name


def open_file(path: StrPath) -> io.BufferedReader:
    """Opens a local file or a URL as a seekable binary file."""
    if not is_remote(path):
        return open(path, "rb")
    system, name = file_system(path)
    return system.open(name, "rb", block_size=1 << 20)  # a read of a small block is a round trip


def check_exists(path: StrPath, *, expected: str) -> None:
    """Raises InputError, with a path that is like it, if `path` does not exist."""
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist{near_path(path) or f'; expected {expected}'}")


def near_path(path: StrPath) -> str:
    """Returns "; did you mean 'PATH'?" with an existing path that is like a missing one, or ""."""
    found = Path()
    for name in Path(path).parts:
        if not os.path.exists(found / name):
            names = os.listdir(found) if found.is_dir() else []
            name = next(iter(get_close_matches(name, names, 1, 0.8)), name)
        found /= name
    return f"; did you mean {str(found)!r}?" if found.exists() else ""


def existing_file(path: StrPath) -> Path:
    """Returns `path` as a `Path`; raises InputError if it is a folder or does not exist."""
    path = Path(path)
    check_exists(path, expected="a file")
    check(not path.is_dir(), f"{path} is a folder; expected a file")
    return path


def text_lines(path: StrPath) -> Iterator[str]:
    """Yields the lines of a UTF-8 file without line ends and without a leading byte order mark.

    Raises:
        InputError: The file does not exist, or a line is not UTF-8; the message names the line.
    """
    path = existing_file(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise utf8_error(path, number, error) from error
            yield text.removeprefix("\ufeff" if number == 1 else "").rstrip("\r\n")


def utf8_error(path: StrPath, number: int, error: UnicodeDecodeError) -> InputError:
    """Returns the error for line `number` of a file, which is not UTF-8."""
    encoding = "LATIN1"
    with contextlib.suppress(UnicodeDecodeError):
        is_korean = re.search("[\uac00-\ud7a3]", error.object.decode("cp949"))
        encoding = "CP949" if is_korean else encoding
    if error.object.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "UTF-16"
    with open_file(path) as file:
        is_text = encoding == "UTF-16" or b"\0" not in file.read(1024)
    check(is_text, f"{path} is not a text file")
    name = Path(path)
    return InputError(
        f"{path}, line {number} is not UTF-8 (byte {error.object[error.start]:#04x} at column "
        f"{error.start + 1}); convert the file: iconv -f {encoding} -t UTF-8 {path} > "
        f"{name.with_name(f'{name.stem}-utf8{name.suffix}')}"
    )


def json_object(path: StrPath) -> dict[str, Any]:
    """Reads a JSON file; raises InputError if it does not exist or holds no JSON object."""
    path = existing_file(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} contains a JSON {type(values).__name__}; expected an object")
    return values


def file_sha256(path: StrPath) -> str:
    """Returns the SHA-256 of the content of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def readable_size(num_bytes: float) -> str:
    """Formats a size with a decimal unit, such as "12.3 kB"."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    power = 0
    while num_bytes >= 1000 and power < len(units) - 1:
        num_bytes, power = num_bytes / 1000, power + 1
    return f"{num_bytes:,.{min(power, 1)}f} {units[power]}"


def check_no_table(path: StrPath) -> None:
    """Raises InputError for the name of a table where plain text is expected."""
    is_table = str(path).endswith((".csv", ".tsv", ".jsonl", ".json"))
    check(not is_table, f"{path} is a table; expected plain text with one text on each line")


def check_no_file(path: StrPath) -> None:
    """Raises InputError if the folder `path` cannot be made, because a file has its name."""
    check(not os.path.isfile(path), f"{path} is a file; name a new folder")


def check_output(path: StrPath, *, suffix: str | tuple[str, ...] = "") -> None:
    """Checks before long work that the file `path` can be written; writes nothing.

    Raises:
        InputError: `path` is a folder, a mount point or a device, its name is too long or does not
            end in a `suffix`, or one of its parents is a file or not writable.
    """
    if is_stdout(path) and isinstance(suffix, str):  # several suffixes choose the format
        return
    ends = suffix if isinstance(suffix, str) else " or ".join(suffix)
    check(os.fspath(path).endswith(suffix), f"{path}: expected a name that ends in {ends}")
    target = Path(os.path.realpath(path))
    what = "a folder" if target.is_dir() else "a mount point or no regular file"
    is_file = target.is_file() and not os.path.ismount(target)
    is_free = is_file or not os.path.lexists(target)
    check(is_free, f"{path} is {what}; name a file to write")
    check(len(os.fsencode(target.name)) < 240, f"{path} is too long; choose a shorter name")
    check_parent(target)


def check_parent(path: StrPath) -> None:
    """Checks as `check_output` does, but `path` may be a folder."""
    parent = next(each for each in Path(path).absolute().parents if os.path.lexists(each))
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        what = "is not writable" if parent.is_dir() else "is not a folder"
        raise InputError(f"{path} cannot be written: {parent} {what}; choose another path")


def refuse_existing(path: StrPath, *, remedy: str = "remove it first") -> None:
    """Raises InputError if `path` exists and is no empty folder: no result is overwritten.

    A mount point or the working directory cannot be replaced either, and the parent of `path` must
    be a folder that is writable.
    """
    path = Path(path)
    is_fixed = path.is_dir() and (os.path.ismount(path) or path.samefile(os.curdir))
    check(not is_fixed, f"{path} cannot be replaced; name a new folder in it")
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise InputError(f"{path} exists already; choose another name or {remedy}")
    check_parent(path)


@contextlib.contextmanager
def _locked(lock: Path, *, output: StrPath) -> Iterator[None]:
    """Holds the lock of a file until the `with` block or the process ends."""
    try:
        with FileLock(lock, timeout=0, mode=0o644):
            yield
    except Timeout as error:
        raise InputError(
            f"another process is writing {output}; wait for it, or choose another output"
        ) from error


@contextlib.contextmanager
def locked_folder(folder: Path, *, output: StrPath | None = None) -> Iterator[None]:
    """Holds the lock of an existing folder; raises InputError if another process holds it.

    Args:
        folder: The folder, in which the file `LOCK` exists as long as the lock is held.
        output: The path for the error message, `folder` by default.
    """
    with _locked(folder / LOCK, output=output or folder):
        try:
            yield
        finally:
            (folder / LOCK).unlink(missing_ok=True)


def is_stdout(path: StrPath) -> bool:
    """Returns whether `path` names the standard output: "-" or "/dev/stdout"."""
    return os.fspath(path) in ("-", "/dev/stdout")


def messages_beside(path: StrPath | None) -> TextIO:
    """Returns the stream for messages of a command that writes `path`, which may be stdout."""
    return sys.stderr if path and is_stdout(path) else sys.stdout


@contextlib.contextmanager
def atomic_file(path: StrPath) -> Iterator[Path]:
    """Yields the path of a file beside `path`, which is renamed to `path` if the block succeeds.

    Otherwise it is deleted, or overwritten by the next process if this one is killed. Missing
    parent folders are created. If `path` is a symbolic link, the file that it names is replaced;
    "-" and "/dev/stdout" are the standard output.

    Raises:
        InputError: As `check_output` does, or another process is writing `path`.
    """
    check_output(path)
    if is_stdout(path):
        with tempfile.TemporaryDirectory() as folder:
            yield (content := Path(folder) / "content")
            sys.stdout.flush()
            sys.stdout.buffer.write(content.read_bytes())
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    with _locked(partial, output=path):
        try:
            yield partial
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def write_text(path: StrPath, text: str) -> None:
    """Writes a UTF-8 file atomically, as `atomic_file` does."""
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: StrPath, values: Any) -> None:
    """Writes values as an indented JSON file, atomically."""
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def atomic_folder(path: StrPath) -> Iterator[Path]:
    """Yields an empty folder beside `path`, which is renamed to `path` if the block succeeds.

    Otherwise it is deleted, or emptied by the next process if this one is killed.

    Raises:
        InputError: `path` is a file or a folder with contents, or another process writes it.
    """
    path = Path(path)
    folder, name = os.path.split(os.path.abspath(path))
    partial = Path(folder, f".{name}.part")
    with _partial_folder(path, partial, result=partial):
        for each in partial.iterdir():
            if each.name != LOCK:
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        yield partial


@contextlib.contextmanager
def resumed_folder(path: StrPath) -> Iterator[tuple[Path, Path]]:
    """Yields PATH.partial/work and PATH.partial/result; the block creates both folders.

    If the block succeeds, the second one becomes `path`, and PATH.partial is deleted. Otherwise it
    remains, and the next run continues in it. Only an InputError in the run that created it deletes
    it.

    Raises:
        InputError: `path` is a file or a folder with contents, or another process writes it.
    """
    path = Path(path)
    partial = Path(f"{os.path.abspath(path)}.partial")
    existed, result = partial.exists(), partial / "result"
    try:
        with _partial_folder(path, partial, result=result):
            yield partial / "work", result
    except InputError:
        if not existed:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def _partial_folder(path: Path, partial: Path, *, result: Path) -> Iterator[Path]:
    """Creates and locks `partial`, and renames `result` to `path` if the block succeeds."""
    path = Path(os.path.abspath(path))  # "new/.." is a folder that exists
    refuse_existing(path)
    partial.mkdir(parents=True, exist_ok=True)
    with _locked(partial / LOCK, output=path):
        try:
            yield partial
            (partial / LOCK).unlink()
            refuse_existing(path)
            os.replace(result, path)
        except BaseException:
            if result == partial:  # nothing in it is continued
                shutil.rmtree(partial, ignore_errors=True)
            raise
