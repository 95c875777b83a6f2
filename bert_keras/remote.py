"""Opens local files and files at URLs such as gs://bucket/file."""

import contextlib
import errno
import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from bert_keras.errors import InputError

_BUFFER = 1 << 20  # bytes; large, because each read of a remote file is a network round trip


def is_remote(path: str | os.PathLike) -> bool:
    """Whether a path is a URL such as gs://bucket/file, which fsspec opens."""
    return "://" in os.fspath(path)


def file_system(path: str | os.PathLike) -> tuple[Any, str]:
    """Return fsspec's `AbstractFileSystem` of a path or URL, and the path in that file system.

    Raises:
        InputError: If fsspec does not know the scheme, or if its driver is not installed.
    """
    from fsspec.core import url_to_fs

    path = os.fspath(path)
    try:
        system, name = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"{path} cannot be reached: {error}; install the fsspec driver of its scheme, such as "
            '"pip install gcsfs" for gs:// or "pip install s3fs" for s3://'
        ) from error
    system.invalidate_cache()  # cached listings would hide changes
    return system, name


def open_file(path: str | os.PathLike) -> io.BufferedReader:
    """Open a local file or a URL as a seekable binary file with a `name`.

    Raises:
        InputError: As `file_system` does.
        OSError: If the file cannot be opened.
    """
    if not is_remote(path):
        return open(path, "rb")
    with remote_errors(path):
        system, name = file_system(path)
        file = system.open(name, "rb")
    return io.BufferedReader(_RemoteFile(os.fspath(path), file), _BUFFER)


@contextlib.contextmanager
def remote_errors(path: str | os.PathLike) -> Iterator[None]:
    """Convert the exceptions of an fsspec driver to `OSError`s with an error number and a path."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        is_missing = isinstance(error, FileNotFoundError)
        number = errno.ENOENT if is_missing else getattr(error, "errno", None) or errno.EIO
        reason = os.strerror(number) if is_missing else str(error) or type(error).__name__
        raise OSError(number, reason, os.fspath(path)) from error


class _RemoteFile(io.RawIOBase):
    """A file of an fsspec driver that raises only `OSError`s with an error number."""

    # Readers treat an error without a number as damaged data.

    def __init__(self, name: str, file: BinaryIO):
        self.name = name
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        with remote_errors(self.name):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with remote_errors(self.name):
            return self._file.seek(offset, whence)

    def close(self) -> None:
        self._file.close()
        super().close()
