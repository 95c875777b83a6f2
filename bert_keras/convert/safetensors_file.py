"""A .safetensors file in, its arrays by name out, and back: read one by one, when asked for."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bert_keras.convert.checkpoint import StoredTensor
from bert_keras.errors import InputError
from bert_keras.storage import existing_file


def stored_tensors(path: str | os.PathLike) -> dict[str, StoredTensor]:
    """Raises InputError where the file is missing, cut off or no such file."""
    try:
        file = safe_open(existing_file(path), framework="numpy")
        return {name: _stored(file, name) for name in file.keys()}  # noqa: SIM118 no mapping
    except SafetensorError as error:
        raise InputError(f"{path} is damaged ({error}); copy or write it anew") from error


def _stored(file, name: str) -> StoredTensor:
    def read() -> np.ndarray:
        return np.ascontiguousarray(file.get_tensor(name), dtype=np.float32)

    return StoredTensor(tuple(file.get_slice(name).get_shape()), read)


def write_tensors(
    path: Path, tensors: Mapping[str, StoredTensor], *, metadata: dict[str, str] | None = None
) -> None:
    save_file({name: tensor.read() for name, tensor in tensors.items()}, path, metadata)
    path.chmod(0o644)
