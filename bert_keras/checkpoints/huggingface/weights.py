"""Reads the weights of a Hugging Face folder under their current names, without duplicates."""

import pickle
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from bert_keras.architectures import MASKED_LM
from bert_keras.checkpoints.foreign import how_to_ignore
from bert_keras.checkpoints.safetensors_file import stored_tensors
from bert_keras.checkpoints.tensors import StoredTensor, refuse_lfs_pointer
from bert_keras.errors import InputError
from bert_keras.family import Family
from bert_keras.files import existing_file, json_object

SAFETENSORS, TORCH, INDEX = "model.safetensors", "pytorch_model.bin", ".index.json"
# Weight files of other frameworks, which are only reported.
OTHER_FRAMEWORKS = {
    "tf_model.h5": "TensorFlow",
    "flax_model.msgpack": "Flax",
    "model.ckpt.index": "TensorFlow 1",
}
FILES = (SAFETENSORS, f"{SAFETENSORS}{INDEX}", TORCH, f"{TORCH}{INDEX}")  # in order of precedence
WEIGHT_FILES = (*FILES, *OTHER_FRAMEWORKS)

TABLE, POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_ids"
SEGMENTS = "embeddings.token_type_ids"
# Weights that are stored twice: the name of the duplicate, and the name of the weight.
TIED = {
    "cls.predictions.decoder.weight": TABLE,
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# First safe version of PyTorch: files could bypass `weights_only` before it (CVE-2025-32434).
SAFE_SINCE = (2, 6)
TO_SAFETENSORS = "save it again as model.safetensors where it was made"
FLOATS = ("float32", "float64", "float16", "bfloat16")


def read_weights(
    folder: Path, *, family: Family, ties_decoder: bool, ignore: Collection[str]
) -> tuple[dict[str, StoredTensor], tuple[str, ...], tuple[str, ...]]:
    """Reads the weights of a folder.

    Args:
        folder: The folder with the weight files.
        family: The family of the model.
        ties_decoder: Whether the decoder of the masked-LM head is the token embedding table.
        ignore: Names of weights to leave out.

    Returns:
        The arrays by their current names without the prefix of the family, such as `bert.`; the
        names that were left out; and notes on the file and the dtypes that were read. The arrays
        omit duplicates of tied weights, and the buffers of positions and segments.

    Raises:
        InputError: A file is missing, damaged or unsafe; or a duplicate or a buffer does not have
            the expected values.
    """
    tensors, unused = {}, []
    stored, notes = stored_weights(folder)
    for name, tensor in stored.items():
        current = current_name(name, family)
        if name in ignore or current in ignore:
            unused.append(name)
        elif current in tensors:
            raise InputError(f"two weights are called {current}, one of them {name}; remove one")
        else:
            tensors[current] = tensor
    _drop_buffers(tensors)
    _drop_duplicates(tensors, family, ignore, ties_decoder=ties_decoder)
    return tensors, tuple(unused), (*notes, *_dtype_notes(tensors))


def current_name(name: str, family: Family) -> str:
    """Returns the current name of a weight, without the prefix of the family.

    Task models add the prefix, such as `bert.`, to the names of the encoder's weights. Old files
    call the weights of LayerNorm gamma and beta.
    """
    name = name.replace(".LayerNorm.gamma", ".LayerNorm.weight")
    name = name.replace(".LayerNorm.beta", ".LayerNorm.bias")
    return name.removeprefix(family.weight_prefix)


def stored_weights(folder: Path) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """Returns the arrays of a folder under their names in the file, and notes on the file.

    Raises:
        InputError: The folder has no weights, or a file is damaged or unsafe.
    """
    file, *others = [file for file in FILES if (folder / file).is_file()] or [""]
    if file:
        unread = ", ".join(others)
        notes = (f"the weights are read from {file}, not from {unread}",) if others else ()
        read = _torch_tensors if file.startswith(TORCH) else stored_tensors
        shards = _shards(folder / file) if file.endswith(INDEX) else [file]
        return {n: t for shard in shards for n, t in read(folder / shard).items()}, notes
    for name, framework in OTHER_FRAMEWORKS.items():
        if (folder / name).is_file():
            raise InputError(
                f"{folder} has weights only in {name}, a file of {framework}; load the folder in "
                f"transformers 4 and save it again, which writes {SAFETENSORS}"
            )
    raise InputError(f"{folder} has no weights; expected {SAFETENSORS} next to config.json")


def _shards(index: Path) -> list[str]:
    files = json_object(index).get("weight_map")
    files = {*map(str, files.values())} if isinstance(files, dict) else {".."}
    if any(Path(file).name != file or file == ".." for file in files):
        raise InputError(f"{index} has no weight_map to files in its folder; copy it again")
    return sorted(files)


def _torch_tensors(path: Path) -> dict[str, StoredTensor]:
    """Reads a pytorch_model.bin; the file is memory-mapped if its format allows it.

    Raises:
        InputError: PyTorch is missing or too old, or the file is damaged or contains anything other
            than a dict of dense tensors.
    """
    refuse_lfs_pointer(existing_file(path))
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f'reading {path.name} requires PyTorch: pip install "bert-keras[parity]"; or '
            f"{TO_SAFETENSORS}"
        ) from error
    version = torch.__version__
    if tuple(map(int, version.split(".")[:2])) < SAFE_SINCE:
        raise InputError(
            f"reading {path.name} requires PyTorch {'.'.join(map(str, SAFE_SINCE))} or newer, "
            f'because {version} can run code in it; pip install "bert-keras[parity]"'
        )
    is_zip = zipfile.is_zipfile(path)  # the older format cannot be memory-mapped
    try:
        with warnings.catch_warnings(action="ignore"):  # newer pickle protocols also load
            tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} contains pickled code, which is never run, or is damaged; {TO_SAFETENSORS}"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise InputError(f"{path} is damaged; copy it again") from error
    if not isinstance(tensors, Mapping):
        raise InputError(f"{path} contains a {type(tensors).__name__}; expected tensors by name")
    others = [str(name) for name, value in tensors.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise InputError(f"{path}: {', '.join(others)} is not a tensor; expected tensors by name")
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise InputError(
                f"{path}: {name} is sparse, quantized or complex; expected a dense real tensor"
            )
    return {
        name: StoredTensor(
            tuple(tensor.shape),
            lambda t=tensor: np.ascontiguousarray(t.detach().float().numpy()),
            str(tensor.dtype).removeprefix("torch."),
        )
        for name, tensor in tensors.items()
    }


def _drop_buffers(tensors: dict[str, StoredTensor]) -> None:
    """Removes the position ids and segment ids that older versions of transformers saved."""
    for name, expected in ((POSITIONS, np.arange), (SEGMENTS, np.zeros)):
        if name in tensors:
            ids = tensors.pop(name).read().reshape(-1)
            if not np.array_equal(ids, expected(len(ids))):
                raise InputError(
                    f"{name} has wrong values; expected position ids from 0 and segment ids of 0"
                )


def _drop_duplicates(
    tensors: dict[str, StoredTensor],
    family: Family,
    ignore: Collection[str],
    *,
    ties_decoder: bool,
) -> None:
    for pair in TIED.items():
        if TABLE in pair and not ties_decoder:
            continue
        name, first = (family.weight_name(each, model=MASKED_LM.name) for each in pair)
        if name not in tensors:
            continue
        duplicate = tensors.pop(name)
        if first not in tensors:
            tensors[first] = duplicate
        elif not np.array_equal(duplicate.read(), tensors[first].read(), equal_nan=True):
            raise InputError(
                f"{name} and {first} differ, but BERT has one weight for both; to use the second: "
                f"{how_to_ignore(*ignore, name)}"
            )


def _dtype_notes(tensors: dict[str, StoredTensor]) -> tuple[str, ...]:
    if others := [name for name, tensor in tensors.items() if tensor.dtype not in FLOATS]:
        raise InputError(
            f"{', '.join(others)}: the dtype is {tensors[others[0]].dtype}; expected floating-point"
            " numbers; save the model without quantization"
        )
    dtypes = sorted({tensor.dtype for tensor in tensors.values()} - {"float32"})
    changes = {"float64": "rounded to float32"}
    return tuple(
        f"weights stored as {dtype} are {changes.get(dtype, 'converted to float32 without loss')}"
        for dtype in dtypes
    )
