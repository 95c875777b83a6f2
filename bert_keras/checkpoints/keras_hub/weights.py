"""Reads and writes the arrays of Keras' .weights.h5 files by their paths in the file.

It uses h5py, on which Keras depends, and builds no model. Links inside the file are not followed,
because they could point to another file.
"""

import contextlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import h5py
import ml_dtypes
import numpy as np

from bert_keras.checkpoints.tensors import StoredTensor, empty, refuse_lfs_pointer
from bert_keras.errors import InputError
from bert_keras.files import existing_file


def stored_tensors(path: Path) -> dict[str, StoredTensor]:
    """Returns the arrays of a file by path; each array is read when `read` of its entry is called.

    Raises:
        InputError: The file is missing, truncated or not an HDF5 file, or an entry is not an array
            of numbers that are stored in the file itself.
    """
    tensors = {}

    def visit(path_in_file: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset):
            tensors[path_in_file] = _stored(path, item)

    with _opened(existing_file(path)) as file:
        file.visititems(visit)
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, StoredTensor]) -> None:
    """Writes arrays by their paths in the file.

    The whole file is built in memory first, because HDF5 crashes if the disk is full.
    """
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for path_in_file, tensor in tensors.items():
            file[path_in_file] = tensor.read()
    path.write_bytes(content.getbuffer())


def _stored(path: Path, dataset: h5py.Dataset) -> StoredTensor:
    path_in_file, shape = dataset.name, dataset.shape
    # HDF5 has no bfloat16. Keras stores two raw bytes a value, and the dtype as an attribute.
    is_bfloat16 = dataset.attrs.get("dtype") == "bfloat16" and dataset.dtype.itemsize == 2
    is_number = is_bfloat16 or dataset.dtype.kind in "fiu"
    if not is_number or dataset.is_virtual or dataset.external:
        raise InputError(f"{path}: {path_in_file} is not an array of numbers stored in this file")

    def read() -> np.ndarray:
        array = np.empty(shape, "V2") if is_bfloat16 else empty(shape)
        with _opened(path) as file:
            cast(h5py.Dataset, file[path_in_file]).read_direct(array)
        return array.view(ml_dtypes.bfloat16).astype(np.float32) if is_bfloat16 else array

    return StoredTensor(shape, read)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path) as file:
            yield file
    except OSError as error:
        refuse_lfs_pointer(path)
        raise InputError(f"{path} is damaged ({error}); copy or write it again") from error
