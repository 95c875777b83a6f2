"""Reads text and JSON files and writes results atomically."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.locks import LOCK, locked_folder, locked_part, remove_abandoned

StrPath = str | os.PathLike


def text_lines(path: str | os.PathLike) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line ends and without a leading byte order mark.

    Raises:
        InputError: If the file does not exist, or if a line is not UTF-8; the message names it.
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
    """Return the error for line `number` of a file, which is not UTF-8."""
    return InputError(
        f"{path}, line {number} is not UTF-8 (byte {error.object[error.start]:#04x} at column "
        f"{error.start + 1}); convert the file to UTF-8 first"
    )


def existing_file(path: str | os.PathLike) -> Path:
    """Return `path` as a `Path`; raise InputError if it is a folder or does not exist."""
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {what}; expected a file")
    return path


def json_object(path: str | os.PathLike) -> dict:
    """Read a JSON file; raise InputError if it does not exist or holds no JSON object."""
    path = existing_file(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} contains a JSON {type(values).__name__}; expected an object")
    return values


def file_sha256(path: str | os.PathLike) -> str:
    """Return the SHA-256 of the content of a file as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def readable_size(num_bytes: float) -> str:
    """Format a size with a decimal unit, such as "12.3 kB"."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    power = 0
    while num_bytes >= 1000 and power < len(units) - 1:
        num_bytes, power = num_bytes / 1000, power + 1
    return f"{num_bytes:,.{min(power, 1)}f} {units[power]}"


def check_output(path: str | os.PathLike) -> None:
    """Check before long work that `path` can be written; writes nothing.

    Raises:
        InputError: If `path` is a folder, or if one of its parents is a file.
        PermissionError: If the nearest existing parent is not writable.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    check_parent(path)


def check_parent(path: Path) -> None:
    """Check as `check_output` does, but `path` may be a folder."""
    parent = next(each for each in path.absolute().parents if os.path.lexists(each))
    if not parent.is_dir():
        raise InputError(f"{path} cannot be written: {parent} is not a folder; choose another path")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike) -> Iterator[Path]:
    """Write a file atomically.

    If the `with` block ends without an exception, the temporary file is renamed to `path`;
    otherwise it is deleted. If the process is killed, the next process that writes `path` deletes
    it. Missing parent folders are created.

    Yields:
        The path of a temporary file in the same folder.

    Raises:
        InputError: As `check_output` does.
        OSError: If the file cannot be written; the error names `path`.
    """
    path = Path(path)
    check_output(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(_parts_of(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")

    def create() -> Path:
        partial.touch()
        return partial

    try:
        with locked_part(create):
            yield partial
            os.replace(partial, path)
    except OSError as error:
        # On a full disk, `write` raises an error without a file name.
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and not error.filename
        if is_full or error.filename == str(partial):
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a UTF-8 file atomically, as `atomic_file` does."""
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Write a folder atomically.

    If the `with` block ends without an exception, the temporary folder is renamed to `path`;
    otherwise it is deleted, together with the parent folders that were created for it. If the
    process is killed, the next process that writes `path` deletes it.

    Yields:
        The path of a temporary folder in the same parent folder.

    Raises:
        InputError: If `path` is a file or a non-empty folder, because results are never
            overwritten, or if one of its parents is a file.
        OSError: If the folder cannot be written.
    """
    path = Path(path)
    refuse_existing(path)
    with partial_folder(path) as partial:
        yield partial
        partial.chmod(0o755)
        while not rename_folder(partial, path):
            refuse_existing(path)


@contextlib.contextmanager
def partial_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Create a temporary folder in the parent folder of `path`, and delete it in the end.

    Missing parents are created; empty ones are removed in the end. If the process is
    killed, the next process that calls this function for `path` deletes the temporary folder.

    Raises:
        InputError: If one of the parents is a file.
        OSError: If a folder cannot be created.
    """
    path = Path(path)
    check_parent(path)
    created = [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(_parts_of(path))

    def create() -> Path:
        try:
            part = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        return Path(part)

    with locked_part(create) as partial:
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            with contextlib.suppress(OSError):  # a parent folder may hold other files by now
                for parent in created:
                    parent.rmdir()


def rename_folder(folder: str | os.PathLike, path: str | os.PathLike) -> bool:
    """Rename a folder to `path`; return False if `path` has contents, which are kept."""
    try:
        os.replace(folder, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def refuse_existing(path: Path) -> None:
    """Raise InputError if `path` exists, unless it is an empty folder: no result is overwritten."""
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise InputError(f"{path} exists already; choose another name or remove it first")


@contextlib.contextmanager
def resumed_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Write a folder over several runs.

    If the `with` block ends without an exception, the folder PATH.partial is renamed to `path`.
    Otherwise it remains, and the next run continues in it. Only an InputError in the run that
    created the folder deletes it.

    Yields:
        The path PATH.partial.

    Raises:
        InputError: If `path` is a file or a non-empty folder, or if another process writes it.
    """
    path = Path(path)
    refuse_existing(path)
    partial = path.with_name(f"{path.name}.partial")
    existed = partial.exists()
    partial.mkdir(parents=True, exist_ok=True)
    with locked_folder(partial, output=path):
        try:
            yield partial
        except InputError:
            if not existed:
                shutil.rmtree(partial)
            raise
        (partial / LOCK).unlink()
        os.replace(partial, path)


def _parts_of(path: Path) -> Iterator[Path]:
    return path.parent.glob(f".{glob.escape(path.name)}.*.part")
