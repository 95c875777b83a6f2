"""Files go to a folder that all workers reach, whole or not at all; it gets its name at the end.

Local paths, and others through Beam's file systems: gs://, s3:// and hdfs:// where Apache Beam has
the extra for them.
"""

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from bert_keras.errors import InputError
from bert_keras.storage import is_remote

_RUNNING = "running"  # a file of the folder beside
_BYTES_AT_ONCE = 1 << 20


def begun(output: str) -> str:
    """The folder beside `output` that a job writes into; InputError where either is there."""
    output = output.rstrip("/")
    partial = f"{output}.beam-partial"
    try:
        if _is_there(output):
            raise InputError(f"{output} is already there; choose another name or remove it first")
        if _is_there(partial):
            raise InputError(
                f"{partial} is already there: another job is writing {output}, or one was "
                "stopped; wait for it, or remove the folder and run again"
            )
        write(join(partial, _RUNNING), b"")
    except Exception as error:
        if not is_remote(output) or isinstance(error, InputError):
            raise
        raise InputError(f"{output} cannot be written through Apache Beam ({error})") from error
    return partial


def join(folder: str, name: str) -> str:
    return FileSystems.join(folder, name)


def upload(path: Path, folder: str) -> None:
    """A local file goes into the folder under its own name."""
    with path.open("rb") as file, _whole(join(folder, path.name)) as out:
        shutil.copyfileobj(file, out, _BYTES_AT_ONCE)


def write(path: str, data: bytes) -> None:
    with _whole(path) as out:
        out.write(data)


def exists(path: str) -> bool:
    return FileSystems.exists(path)


def read_json(path: str) -> dict:
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return json.loads(file.read())


def publish(partial: str, output: str, names: Sequence[str]) -> None:
    """The files of these names get their place, the last one last; whatever else is there goes.

    What was done by an earlier call that was stopped is not done again.
    """
    output = output.rstrip("/")
    left = _names_in(partial)
    if not is_remote(output):
        for name in set(left) - set(names):
            os.remove(join(partial, name))
        if left:
            os.replace(partial, output)
        return
    if not FileSystems.exists(output):
        FileSystems.mkdirs(output)
    for some in (names[:-1], names[-1:]):
        moved = [name for name in some if name in left]
        FileSystems.rename(
            [join(partial, name) for name in moved], [join(output, name) for name in moved]
        )
    remove(partial)


def remove(folder: str) -> None:
    if not is_remote(folder):
        shutil.rmtree(folder)
    else:
        FileSystems.delete([join(folder, name) for name in _names_in(folder)])


@contextlib.contextmanager
def _whole(path: str) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its name when the block ends without an error."""
    beside = f"{path}.{uuid.uuid4().hex}.part"
    with FileSystems.create(beside, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        yield file
    FileSystems.rename([beside], [path])


def _is_there(path: str) -> bool:
    return bool(_names_in(path)) or (not is_remote(path) and os.path.isfile(path))


def _names_in(folder: str) -> list[str]:
    """Its files; none where there is no such folder."""
    if not is_remote(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    (matched,) = FileSystems.match([join(folder, "*")])
    return sorted(FileSystems.split(found.path)[1] for found in matched.metadata_list)
