"""A path such as gs://bucket/file comes in; what can be done with files where it lies goes out.

TensorFlow's file systems where it has one for the scheme (gs://), else Apache Beam's (s3://).
"""

import contextlib
import errno
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import BinaryIO, NoReturn

from bert_keras.errors import InputError

_BUFFER = 1 << 20  # bytes; a remote read costs a round trip


@dataclass(frozen=True)
class FileSystem:
    whose: str
    exists: Callable[[str], bool]
    isdir: Callable[[str], bool]
    walk: Callable[[str], Iterable]  # as os.walk; names may stand for a path below
    glob: Callable[[str], list[str]]
    open: Callable[[str], BinaryIO]  # can be read from any place
    status: Callable[[str], tuple[int, int]]  # bytes, and when modified (ns)


def file_system(path: str) -> FileSystem:
    """The one that knows the scheme of `path`.

    Raises InputError where none does.
    """
    import tensorflow as tf

    scheme = path.partition("://")[0]
    if scheme in tf.io.gfile.get_registered_schemes():
        own = tf.io.gfile
        walk = partial(own.walk, onerror=raised)
        return FileSystem(
            "TensorFlow",
            own.exists,
            own.isdir,
            walk,
            own.glob,
            _tensorflow_file,
            _tensorflow_status,
        )
    system = _beam_system(path, scheme)
    return FileSystem(
        'Apache Beam and its extra for them, for s3:// "apache-beam[aws]"',
        system.exists,
        partial(_is_folder, system),
        partial(_walk, system),
        partial(_glob, system),
        partial(_beam_file, system),
        partial(_beam_status, system),
    )


def raised(error: Exception) -> NoReturn:
    """A folder that cannot be read is not passed over."""
    raise error


def _tensorflow_file(path: str) -> BinaryIO:
    import tensorflow as tf

    file = tf.io.gfile.GFile(path, "rb")
    with _tensorflow_errors(path):
        size = file.size()
    return io.BufferedReader(_File(path, file, size, _tensorflow_errors), _BUFFER)


def _tensorflow_status(path: str) -> tuple[int, int]:
    import tensorflow as tf

    status = tf.io.gfile.stat(path)
    return status.length, status.mtime_nsec


def _beam_system(path: str, scheme: str):
    """Beam's FileSystem for `path`."""
    try:
        from apache_beam.io.filesystem import FileSystem as BeamFileSystem
        from apache_beam.io.filesystems import FileSystems
        from apache_beam.options.pipeline_options import PipelineOptions

        schemes = {each.scheme() for each in BeamFileSystem.get_all_subclasses()}
    except ImportError:
        schemes = set()
    if scheme not in schemes:
        raise InputError(
            f"{path} cannot be reached: TensorFlow has no file system for {scheme}://; expected "
            'gs://, or Apache Beam with one: pip install "bert-keras[beam]", and for s3:// '
            '"apache-beam[aws]" too'
        )
    if FileSystems._pipeline_options is None:  # outside a job; s3:// wants options, even if empty
        FileSystems.set_options(PipelineOptions([]))
    try:
        return FileSystems.get_filesystem(path)
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be reached through Apache Beam ({error})") from error


def _is_folder(system, path: str) -> bool:
    """Where there are only names, each that goes on behind a "/" makes a folder."""
    if not system.has_dirs():
        return any(True for _ in system._list(f"{path.rstrip('/')}/"))
    if not system.exists(path):
        return False
    try:
        next(iter(system._list(path)), None)
    except OSError as error:
        if "not a directory" in str(error):
            return False
        raise
    return True


def _below(system, prefix: str) -> Iterator[str]:
    """Every file whose path begins with `prefix`.

    Through Beam's `_list`, since its `match` goes no folder down and cannot name a file with a "[".
    """
    if not system.has_dirs():
        found = (each.path for each in system._list(prefix))
        yield from (path for path in found if not path.endswith("/"))  # a folder's own mark
        return
    for each in system._list(prefix[: prefix.rindex("/") + 1]):
        if each.path.startswith(prefix):
            if each.size_in_bytes == 0 and _is_folder(system, each.path):
                yield from _below(system, f"{each.path}/")
            else:
                yield each.path


def _walk(system, folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    prefix = f"{folder.rstrip('/')}/"
    yield folder, [], [path.removeprefix(prefix) for path in _below(system, prefix)]


def _glob(system, pattern: str) -> list[str]:
    """Files and folders; ** is any number of folders, as in Python's glob and not in Beam's."""
    wanted = pattern.rstrip("/").split("/")
    found = (path.split("/") for path in _below(system, re.match(r"[^*?[]*", pattern).group()))
    tops = {tuple(names[:end]) for names in found for end in range(1, len(names) + 1)}
    return sorted("/".join(names) for names in tops if _is_match(names, wanted))


def _is_match(names: tuple[str, ...], wanted: list[str]) -> bool:
    if not wanted:
        return not names
    is_hidden = bool(names) and names[0].startswith(".") and not wanted[0].startswith(".")
    if wanted[0] == "**":
        goes_on = bool(names) and not is_hidden and _is_match(names[1:], wanted)
        return goes_on or _is_match(names, wanted[1:])
    is_first = bool(names) and not is_hidden and fnmatchcase(names[0], wanted[0])
    return is_first and _is_match(names[1:], wanted[1:])


def _beam_file(system, path: str) -> BinaryIO:
    from apache_beam.io.filesystem import CompressionTypes

    with _beam_errors(path):
        file = system.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
        if isinstance(file, io.BufferedReader):
            file = file.detach()  # without Beam's buffer of 16 MB: a unit of text is one
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
    return io.BufferedReader(_File(path, file, size, _beam_errors), _BUFFER)


def _beam_status(system, path: str) -> tuple[int, int]:
    with _beam_errors(path):
        found = system.metadata(path)
    return found.size_in_bytes, round(found.last_updated_in_seconds * 1e9)


class _File(io.RawIOBase):
    """A remote file under Python's own contract of files."""

    def __init__(
        self, path: str, file, size: int, errors: Callable[[str], AbstractContextManager[None]]
    ):
        self.name = path
        self._file = file
        self._size = size
        self._errors = errors

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        with self._errors(self.name):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with self._errors(self.name):
            base = {os.SEEK_SET: 0, os.SEEK_CUR: self._file.tell(), os.SEEK_END: self._size}
            self._file.seek(base[whence] + offset)
        return base[whence] + offset

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def _tensorflow_errors(path: str) -> Iterator[None]:
    """What TensorFlow raises, as the OSError that it stands for."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except tf.errors.OpError as error:
        raise OSError(errno.EIO, error.message, path) from error


@contextlib.contextmanager
def _beam_errors(path: str) -> Iterator[None]:
    """What the clients of Beam's file systems raise, of many kinds, as an OSError with a number."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        raise OSError(errno.EIO, str(error), path) from error
