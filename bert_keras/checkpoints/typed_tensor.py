"""An array that is still in its file, with the type that it has there."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bert_keras.checkpoints.checkpoint import StoredTensor


@dataclass(frozen=True)
class TypedTensor(StoredTensor):
    """`dtype` is NumPy's name of it, such as "float16"; what is read is float32 all the same."""

    dtype: str
    read_transposed: Callable[[], np.ndarray]

    def transposed(self) -> StoredTensor:
        return StoredTensor(self.shape[::-1], self.read_transposed)
