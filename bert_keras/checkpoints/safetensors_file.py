"""Reads and writes .safetensors files with one array in memory at a time."""

import json
import os
from collections.abc import Iterator, Mapping
from io import BufferedReader
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from bert_keras.checkpoints.tensors import STRIP_ROWS, StoredTensor, empty, refuse_lfs_pointer
from bert_keras.errors import InputError
from bert_keras.files import existing_file

# Supported dtypes by their names in the file.
DTYPES = {
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
}
# Bytes: size of the header's length field at the start of the file, and alignment of the arrays.
LENGTH, ALIGNMENT = 8, 8


def stored_tensors(path: str | os.PathLike) -> dict[str, StoredTensor]:
    """Returns the arrays of a file by name; each array is read when `read` of its entry is called.

    Raises:
        InputError: The file is missing, truncated or not a .safetensors file, or an array has an
            unsupported dtype.
    """
    path = existing_file(path)
    try:
        with safe_open(path, framework="numpy"):  # raises for a wrong header or file size
            pass
    except SafetensorError as error:
        refuse_lfs_pointer(path)
        raise InputError(f"{path} is damaged ({error}); copy or write it again") from error
    with path.open("rb") as file:
        start = LENGTH + int.from_bytes(file.read(LENGTH), "little")
        header = json.loads(file.read(start - LENGTH))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if entry["dtype"] not in DTYPES:
            raise InputError(
                f"{path}: {name} has the dtype {entry['dtype']}; expected {', '.join(DTYPES)}"
            )
    return {name: _stored(path, start, entry) for name, entry in header.items()}


def _stored(path: Path, start: int, entry: dict) -> StoredTensor:
    """Returns one array of the file.

    `read` fills the memory that the TensorFlow variable takes over, so that only one copy exists.
    """
    shape, dtype = tuple(entry["shape"]), DTYPES[entry["dtype"]]
    offset = start + entry["data_offsets"][0]

    def filled(array: np.ndarray, file: BufferedReader) -> np.ndarray:
        if file.readinto(array.reshape(-1).view(np.uint8).data) < array.nbytes:
            raise InputError(f"{path} became shorter while it was read; copy it again")
        return array

    def read() -> np.ndarray:
        array = empty(shape)
        with path.open("rb") as file:
            file.seek(offset)
            if dtype == array.dtype:
                return filled(array, file)
            array[...] = filled(np.empty(shape, dtype), file)
        return array

    def strips() -> Iterator[np.ndarray]:
        with path.open("rb") as file:
            file.seek(offset)
            for first in range(0, shape[0], STRIP_ROWS):
                yield filled(np.empty((min(STRIP_ROWS, shape[0] - first), *shape[1:]), dtype), file)

    return StoredTensor(shape, read, dtype.name, strips)


def header_strings(path: str | os.PathLike) -> dict[str, str]:
    """Returns the metadata strings in the header of a file, {} if there are none."""
    with safe_open(path, framework="numpy") as file:
        return file.metadata() or {}


def write_tensors(
    path: Path, tensors: Mapping[str, StoredTensor], *, metadata: dict[str, str] | None = None
) -> None:
    """Writes arrays as float32, in the order of their names, one array in memory at a time.

    The bytes are those that `save_file` of safetensors writes, which copies all arrays first.

    Args:
        path: The file to write.
        tensors: The arrays by name.
        metadata: Strings for the header; None writes no metadata.
    """
    header: dict[str, dict] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name in sorted(tensors):
        shape = tensors[name].shape
        start, end = end, end + 4 * prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(LENGTH, "little") + text)
        for name in sorted(tensors):
            array = tensors[name].read().astype("<f4", order="C", copy=False)
            file.write(array.reshape(-1).data.cast("B"))
