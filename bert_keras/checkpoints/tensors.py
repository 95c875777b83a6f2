"""Arrays that stay in their file or variable until they are read, and .safetensors files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bert_keras.errors import InputError
from bert_keras.files import StrPath, existing_file

if TYPE_CHECKING:  # checkpoints are recognised before Keras is imported
    import keras

_STRIP = 16  # rows to transpose at once; to transpose all at once takes three times as long
# Old files have position ids in int64; integers of other types are quantized weights.
_DTYPES = ("F32", "F64", "F16", "BF16", "I64")


@dataclass(frozen=True)
class StoredTensor:
    """An array that stays in its file, or in a variable, until `read` is called."""

    shape: Sequence[int]
    read: Callable[[], np.ndarray]  # returns the array; floats become float32

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(self.shape))

    def transposed(self) -> "StoredTensor":
        """Returns the transpose of this matrix."""

        def read() -> np.ndarray:
            array, transposed = self.read(), np.empty(self.shape[::-1], np.float32)
            for start in range(0, self.shape[0], _STRIP):
                strip = slice(start, start + _STRIP)
                transposed[:, strip] = array[strip].T
            return transposed

        return StoredTensor(self.shape[::-1], read)

    def split(self, count: int) -> "list[StoredTensor]":
        """Returns `count` equal parts of this array along the first axis."""
        if count == 1:
            return [self]
        size = self.shape[0] // count
        shape, starts = (size, *self.shape[1:]), range(0, self.shape[0], size)
        return [StoredTensor(shape, lambda i=i: self.read()[i : i + size]) for i in starts]

    def reordered(self, rows: np.ndarray) -> "StoredTensor":
        """Returns this array with its rows in another order."""
        return StoredTensor(self.shape, lambda: self.read()[rows])


def join_tensors(tensors: Sequence[StoredTensor]) -> StoredTensor:
    """Concatenates arrays along the first axis."""
    if len(tensors) == 1:
        return tensors[0]
    shape = (sum(each.shape[0] for each in tensors), *tensors[0].shape[1:])
    return StoredTensor(shape, lambda: np.concatenate([each.read() for each in tensors]))


def stored_weight(weight: "keras.Variable") -> StoredTensor:
    """Wraps a variable as a StoredTensor, whose `read` copies the values to NumPy."""
    import keras

    return StoredTensor(weight.shape, lambda: keras.ops.convert_to_numpy(weight))


def named_weights(model: "keras.Model") -> "dict[str, keras.Variable]":
    """Returns every weight by its public name, such as `encoder/layer_0/attention/query/kernel`."""
    prefix = f"{model.path or model.name}/"  # `path` is set if a model or scope built it
    kind = getattr(model, "kind", None)
    part = "encoder/" if kind and kind.model == "BertEncoder" else ""
    return {part + weight.path.removeprefix(prefix): weight for weight in model.weights}


def stored_tensors(path: StrPath) -> dict[str, StoredTensor]:
    """Returns the arrays of a .safetensors file by name."""
    path = existing_file(path)

    def defer(name: str, shape: Sequence[int]) -> StoredTensor:
        def read() -> np.ndarray:
            # Opened for each array, because the pages of a mapped file count as process memory.
            with safe_open(path, framework="numpy") as file:
                return file.get_tensor(name).astype(np.float32, copy=False)

        return StoredTensor(shape, read)

    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            for name, each in slices.items():
                if each.get_dtype() not in _DTYPES:
                    raise InputError(
                        f"{path}: {name} is {each.get_dtype()}; save the model without quantization"
                    )
            return {name: defer(name, each.get_shape()) for name, each in slices.items()}
    except SafetensorError as error:
        message = f"{path} is damaged ({error}); copy it again, in a clone by git lfs pull"
        raise InputError(message) from error


def write_tensors(
    path: StrPath, tensors: Mapping[str, StoredTensor], *, metadata: dict[str, str] | None = None
) -> None:
    """Writes arrays in float32 as a .safetensors file with `metadata` in its header."""
    arrays = {name: np.asarray(tensors[name].read(), np.float32, order="C") for name in tensors}
    save_file(arrays, path, metadata=metadata)
