"""Reads and writes .safetensors files, one array after another."""

import json
import os
from collections.abc import Iterator, Mapping
from io import BufferedReader
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from bert_keras.checkpoints.tensors import STRIP, StoredTensor, empty, refuse_pointer
from bert_keras.errors import InputError
from bert_keras.storage import existing_file

DTYPES = {
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
}
LENGTH, BORDER = 8, 8  # bytes that say how long the header is; where the first array may begin


def stored_tensors(path: str | os.PathLike) -> dict[str, StoredTensor]:
    """Raises InputError where the file is missing, cut off or no such file."""
    path = existing_file(path)
    try:
        with safe_open(path, framework="numpy"):  # checks the header and the length
            pass
    except SafetensorError as error:
        refuse_pointer(path)
        raise InputError(f"{path} is damaged ({error}); copy or write it anew") from error
    with path.open("rb") as file:
        start = LENGTH + int.from_bytes(file.read(LENGTH), "little")
        header = json.loads(file.read(start - LENGTH))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if entry["dtype"] not in DTYPES:
            raise InputError(f"{path}: {name} is of {entry['dtype']}; expected {', '.join(DTYPES)}")
    return {name: _stored(path, start, entry) for name, entry in header.items()}


def _stored(path: Path, start: int, entry: dict) -> StoredTensor:
    """Reads straight into the array that a variable takes over: there is one copy in all."""
    shape, dtype = tuple(entry["shape"]), DTYPES[entry["dtype"]]
    begin = start + entry["data_offsets"][0]

    def filled(array: np.ndarray, file: BufferedReader) -> np.ndarray:
        if file.readinto(array.reshape(-1).view(np.uint8).data) < array.nbytes:
            raise InputError(f"{path} has become shorter while it was read; copy it anew")
        return array

    def read() -> np.ndarray:
        array = empty(shape)
        with path.open("rb") as file:
            file.seek(begin)
            if dtype == array.dtype:
                return filled(array, file)
            array[...] = filled(np.empty(shape, dtype), file)
        return array

    def strips() -> Iterator[np.ndarray]:
        with path.open("rb") as file:
            file.seek(begin)
            for first in range(0, shape[0], STRIP):
                yield filled(np.empty((min(STRIP, shape[0] - first), *shape[1:]), dtype), file)

    return StoredTensor(shape, read, dtype.name, strips)


def metadata(path: str | os.PathLike) -> dict[str, str]:
    """Returns the texts in the header of a file."""
    with safe_open(path, framework="numpy") as file:
        return file.metadata() or {}


def write_tensors(
    path: Path, tensors: Mapping[str, StoredTensor], *, metadata: dict[str, str] | None = None
) -> None:
    """float32, by name; the same bytes as safetensors' own `save_file`, which copies all first."""
    header: dict[str, dict] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name in sorted(tensors):
        begin, end = end, end + 4 * prod(tensors[name].shape)
        shape = list(tensors[name].shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % BORDER)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(LENGTH, "little") + text)
        for name in sorted(tensors):
            array = tensors[name].read().astype("<f4", order="C", copy=False)
            file.write(array.reshape(-1).data.cast("B"))
