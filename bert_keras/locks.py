"""Locks folders and incomplete files, so that processes do not write or delete the same ones."""

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from bert_keras.errors import InputError

LOCK = ".lock"  # the file of `locked_folder`


@contextlib.contextmanager
def locked_folder(folder: Path, *, output: Path | None = None) -> Iterator[None]:
    """Hold the lock of a folder, and delete what a killed process left half-written in it.

    The lock is a file in the folder that exists as long as it is held. It ends with the process,
    also if the process is killed.

    Args:
        folder: An existing folder.
        output: The path for the error message, `folder` by default.

    Raises:
        InputError: If another process holds the lock.
    """
    path = folder / LOCK
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = os.fstat(lock.fileno()).st_nlink == 0  # another process has just ended
        except BlockingIOError:
            is_held = True
        except OSError as error:  # such as a Lustre file system that is mounted without flock
            is_held = False
            print(
                f"WARNING: {folder} cannot be locked ({error.strerror}); do not start a second run "
                "in it",
                file=sys.stderr,
            )
        if is_held:
            raise InputError(
                f"another run is writing {output or folder}; wait for it or end it, or choose "
                "another output"
            )
        try:
            remove_abandoned(folder.rglob(".*.part"))
            yield
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def in_use(part: Path) -> Iterator[None]:
    """Lock an incomplete file or folder, so that no process deletes it as an abandoned one."""
    descriptor = os.open(part, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not on every network file system
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(parts: Iterable[Path]) -> None:
    """Delete the incomplete files and folders that no running process has locked."""
    for part in [*parts]:
        with contextlib.suppress(OSError):  # in use, or deleted by another process
            descriptor = os.open(part, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(part) if part.is_dir() else part.unlink()
            finally:
                os.close(descriptor)
