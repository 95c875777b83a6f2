"""Locks folders and incomplete files, so that processes do not write or delete the same ones."""

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
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
def locked_part(create: Callable[[], Path]) -> Iterator[Path]:
    """Create an incomplete file or folder and lock it, so that no process deletes it.

    Another process may take it for an abandoned one until it is locked; then it is created again.

    Args:
        create: Creates the file or folder and returns its path.

    Yields:
        The path.
    """
    while True:
        part = create()
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(part, os.O_RDONLY)
            with contextlib.suppress(OSError):  # not on every network file system
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if part.exists():
                break
            os.close(descriptor)
    try:
        yield part
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
