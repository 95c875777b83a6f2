"""Writes files to a folder that all workers share; the folder gets its final name at the end."""

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from bert_keras.errors import InputError
from bert_keras.files import file_system, is_remote, open_file

_RUNNING = "running"  # a file that marks the partial folder
_COPY_BYTES = 1 << 20


def create_partial(output: str) -> str:
    """Creates the folder OUTPUT.beam-partial that a job writes to, and returns its path.

    Raises:
        InputError: One of the two folders exists already.
    """
    output = output.rstrip("/")
    partial = f"{output}.beam-partial"
    if _is_used(output):
        raise InputError(f"{output} exists already; choose another name or remove it first")
    if _is_used(partial):
        raise InputError(
            f"{partial} exists already: another job is writing {output}, or one was stopped; "
            "wait for it, or remove the folder and run again"
        )
    system, folder = file_system(partial)
    system.makedirs(folder, exist_ok=True)
    write(join(partial, _RUNNING), b"")
    return partial


def join(folder: str, name: str) -> str:
    """Returns the path of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def upload(path: Path, folder: str) -> None:
    """Copies a local file into the folder."""
    with path.open("rb") as file, _atomic_file(join(folder, path.name)) as out:
        shutil.copyfileobj(file, out, _COPY_BYTES)


def write(path: str, data: bytes) -> None:
    """Writes a file, which appears only when it is complete."""
    with _atomic_file(path) as out:
        out.write(data)


def exists(path: str) -> bool:
    """Returns whether a file or folder exists."""
    system, name = file_system(path)
    return system.exists(name)


def read_json(path: str) -> dict:
    """Returns the object in a JSON file."""
    with open_file(path) as file:
        return json.loads(file.read())


def publish(partial: str, output: str, names: Sequence[str]) -> None:
    """Moves the named files to `output` in their order and removes all other files.

    The call may be repeated after an interruption: files that were moved already are kept.
    """
    output = output.rstrip("/")
    existing = _names_in(partial)
    if not is_remote(output):
        for name in set(existing) - set(names):
            os.remove(join(partial, name))
        if existing:
            os.replace(partial, output)
        return
    system, folder = file_system(output)
    system.makedirs(folder, exist_ok=True)
    for name in names:
        if name in existing:
            system.mv(join(file_system(partial)[1], name), join(folder, name))
    remove(partial)


def remove(folder: str) -> None:
    """Removes a folder and its contents, if it exists."""
    system, name = file_system(folder)
    if system.exists(name):
        system.rm(name, recursive=True)


@contextlib.contextmanager
def _atomic_file(path: str) -> Iterator[BinaryIO]:
    """Opens a temporary file, which is renamed to `path` if the block ends without an error."""
    system, name = file_system(path)
    partial_path = f"{name}.{uuid.uuid4().hex}.part"
    with system.open(partial_path, "wb") as file:
        yield file
    system.mv(partial_path, name)


def _is_used(path: str) -> bool:
    system, name = file_system(path)
    return system.isfile(name) or bool(_names_in(path))


def _names_in(folder: str) -> list[str]:
    """Returns the names of the files of a folder, or none if the folder does not exist."""
    system, name = file_system(folder)
    paths = system.ls(name, detail=False) if system.isdir(name) else []
    return sorted(filter(None, (path.removeprefix(f"{name}/") for path in paths)))
