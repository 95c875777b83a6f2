"""Reads the arrays of a pytorch_model.bin; runs none of its code."""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bert_keras.checkpoints.tensors import StoredTensor, refuse_pointer
from bert_keras.errors import InputError
from bert_keras.storage import existing_file

SAFE_SINCE = (2, 6)  # before it `weights_only` could be got round: CVE-2025-32434
TO_SAFETENSORS = "save it again as model.safetensors where it was made"


def stored_tensors(path: Path) -> dict[str, StoredTensor]:
    """The file is mapped where its kind allows it. Raises InputError where PyTorch is not there or
    too old, and for files that are damaged or hold anything but tensors by name.
    """
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f'{path.name} takes PyTorch to read: pip install "bert-keras[parity]"; or '
            f"{TO_SAFETENSORS}"
        ) from error
    version = torch.__version__
    if tuple(int(number) for number in version.split(".")[:2]) < SAFE_SINCE:
        raise InputError(
            f"{path.name} takes PyTorch {'.'.join(map(str, SAFE_SINCE))} or newer to read: "
            f'{version} can be made to run code by it; pip install "bert-keras[parity]"'
        )
    is_zip = zipfile.is_zipfile(existing_file(path))  # the older kind cannot be mapped
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except pickle.UnpicklingError as error:
        refuse_pointer(path)
        raise InputError(
            f"{path} holds pickled code or is damaged; code is never run: {TO_SAFETENSORS}"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise InputError(f"{path} is damaged; copy it anew") from error
    if not isinstance(found, Mapping):
        raise InputError(f"{path} holds a {type(found).__name__}; expected tensors by name")
    others = [str(name) for name, value in found.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise InputError(f"{path} holds {', '.join(others)}, no tensors; expected tensors by name")
    for name, tensor in found.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise InputError(
                f"{path}: {name} is sparse, quantised or complex; expected plain numbers"
            )
    return {
        name: StoredTensor(
            tuple(tensor.shape),
            lambda t=tensor: np.ascontiguousarray(t.detach().float().numpy()),
            str(tensor.dtype).removeprefix("torch."),
        )
        for name, tensor in found.items()
    }
