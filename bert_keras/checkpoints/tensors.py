"""Arrays that are still in their file, and how they are read: by strips and without a copy."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from bert_keras.errors import InputError

# Rows. NumPy's transpose of a whole matrix writes each number to another page; by strips it takes a
# quarter of the time (BERT-base 0.10 s instead of 0.24) and needs no second matrix.
STRIP = 64
_BORDER = 64  # bytes; TensorFlow ends the process over a buffer that begins elsewhere
_LFS_POINTER = b"version https://git-lfs"  # the beginning of such a file


@dataclass(frozen=True)
class StoredTensor:
    """An array that is still in its file: `read` returns it, float32 and in C order."""

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    dtype: str = "float32"  # NumPy's name of the type in the file
    # Reads a matrix by STRIP rows, in the type of the file; None where the file cannot.
    strips: Callable[[], Iterable[np.ndarray]] | None = None

    def transposed(self) -> "StoredTensor":
        def read() -> np.ndarray:
            turned, start = empty(self.shape[::-1]), 0
            for rows in self.strips() if self.strips else [self.read()]:
                turned[:, start : start + len(rows)] = rows.T
                start += len(rows)
            return turned

        return StoredTensor(self.shape[::-1], read)

    def reshaped(self, shape: tuple[int, ...]) -> "StoredTensor":
        if shape == self.shape:
            return self
        return StoredTensor(shape, lambda: self.read().reshape(shape))


def empty(shape: tuple[int, ...]) -> np.ndarray:
    """Returns a float32 array, not filled, whose memory a TensorFlow variable can take over."""
    count = 4 * math.prod(shape)
    buffer = np.empty(count + _BORDER, np.uint8)
    start = -buffer.ctypes.data % _BORDER
    return buffer[start : start + count].view(np.float32).reshape(shape)


def tensor(array: np.ndarray):
    """Returns the array as a tensor of Keras' backend, without a copy where it is one of `empty`;
    the caller must not write to the array any more."""
    on_border = array.ctypes.data % _BORDER == 0 and array.flags.writeable
    if keras.config.backend() == "tensorflow" and on_border and array.flags.c_contiguous:
        import tensorflow as tf

        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return keras.ops.convert_to_tensor(array)


def refuse_pointer(path: Path) -> None:
    """Raises InputError where `path` is what a clone without Git LFS has in place of the file."""
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise InputError(
                f"{path} is a Git LFS pointer, not the file itself: fetch it with git lfs pull"
            )
