"""Represents arrays that stay in their file until they are read, and reads them without a copy."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from bert_keras.errors import InputError

# Number of rows that a transpose reads at a time. NumPy's transpose of a whole matrix writes
# consecutive values to different memory pages. Transposing in strips is faster (BERT-base: 0.10 s
# instead of 0.24 s) and needs no second matrix.
STRIP_ROWS = 64
_ALIGNMENT = 64  # bytes; TensorFlow aborts the process if a buffer does not have this alignment
_LFS_POINTER = b"version https://git-lfs"  # the first bytes of a Git LFS pointer file


@dataclass(frozen=True)
class StoredTensor:
    """An array that stays in its file, or in a variable, until `read` is called."""

    shape: tuple[int, ...]  # shape of the array that `read` returns
    read: Callable[[], np.ndarray]  # returns the array in C order; floats of any dtype as float32
    dtype: str = "float32"  # NumPy's name of the dtype in the file
    # Yields strips of STRIP_ROWS rows of the array, in the dtype of the file. None if the file
    # format does not support this.
    strips: Callable[[], Iterable[np.ndarray]] | None = None

    def transposed(self) -> "StoredTensor":
        """Returns the transpose of this matrix."""

        def read() -> np.ndarray:
            transposed_array, start = empty(self.shape[::-1]), 0
            for rows in self.strips() if self.strips else [self.read()]:
                transposed_array[:, start : start + len(rows)] = rows.T
                start += len(rows)
            return transposed_array

        return StoredTensor(self.shape[::-1], read)

    def reshaped(self, shape: tuple[int, ...]) -> "StoredTensor":
        """Returns this array in another shape."""
        if shape == self.shape:
            return self
        return StoredTensor(shape, lambda: self.read().reshape(shape))

    def split(self, lengths: Sequence[int]) -> "list[StoredTensor]":
        """Returns parts of this array with these lengths of the first axis, one after the other."""
        ends = list(itertools.accumulate(lengths))
        return [
            StoredTensor((length, *self.shape[1:]), lambda e=end, n=length: self.read()[e - n : e])
            for end, length in zip(ends, lengths, strict=True)
        ]


def joined(tensors: Sequence[StoredTensor]) -> StoredTensor:
    """Returns arrays as one, joined along the first axis."""
    if len(tensors) == 1:
        return tensors[0]
    shape = (sum(each.shape[0] for each in tensors), *tensors[0].shape[1:])
    return StoredTensor(shape, lambda: np.concatenate([each.read() for each in tensors]))


def empty(shape: tuple[int, ...]) -> np.ndarray:
    """Returns an uninitialized float32 array whose memory a TensorFlow variable can take over."""
    num_bytes = 4 * math.prod(shape)
    buffer = np.empty(num_bytes + _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + num_bytes].view(np.float32).reshape(shape)


def tensor(array: np.ndarray):
    """Returns an array as a tensor of the Keras backend.

    Under TensorFlow, an array that `empty` allocated is not copied: it shares its memory with the
    tensor, so the caller must not write to it afterwards.
    """
    is_aligned = array.ctypes.data % _ALIGNMENT == 0 and array.flags.writeable
    if keras.config.backend() == "tensorflow" and is_aligned and array.flags.c_contiguous:
        import tensorflow as tf

        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return keras.ops.convert_to_tensor(array)


def refuse_lfs_pointer(path: Path) -> None:
    """Raises InputError if `path` is a Git LFS pointer file.

    A clone without Git LFS has such a small text file instead of each large file.
    """
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise InputError(
                f"{path} is a Git LFS pointer, not the file itself; fetch it with git lfs pull"
            )
