"""Reads the weights of a Hugging Face folder under their current names, without duplicates."""

import pickle
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from bert_keras.architectures import MASKED_LM, Family
from bert_keras.checkpoints.safetensors_file import stored_tensors
from bert_keras.checkpoints.tensors import StoredTensor, refuse_pointer
from bert_keras.errors import InputError
from bert_keras.storage import existing_file, json_object

SAFETENSORS, TORCH, INDEX = "model.safetensors", "pytorch_model.bin", ".index.json"
# Weight files of other frameworks, which are only reported.
OF_OTHERS = {
    "tf_model.h5": "TensorFlow",
    "flax_model.msgpack": "Flax",
    "model.ckpt.index": "TensorFlow 1",
}
FILES = (SAFETENSORS, f"{SAFETENSORS}{INDEX}", TORCH, f"{TORCH}{INDEX}")  # in order of precedence
WEIGHT_FILES = (*FILES, *OF_OTHERS)

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
    folder: Path, *, family: Family, ignore: Collection[str]
) -> tuple[dict[str, StoredTensor], tuple[str, ...], tuple[str, ...]]:
    """Reads the weights of a folder.

    Args:
        folder: The folder with the weight files.
        family: The family of the model.
        ignore: Names of weights to leave out.

    Returns:
        The arrays by their current names without the prefix of the family, such as `bert.`; the
        names that were left out; and notes on the file and the dtypes that were read. The arrays
        omit duplicates of tied weights, and the buffers of positions and segments.

    Raises:
        InputError: A file is missing, damaged or unsafe; or a duplicate or a buffer does not have
            the expected values.
    """
    found, left_over = {}, []
    stored, notes = _stored(folder)
    for name, tensor in stored.items():
        today = modern(name, family)
        if name in ignore or today in ignore:
            left_over.append(name)
        elif today in found:
            raise InputError(f"two weights are called {today}, one of them {name}; leave one")
        else:
            found[today] = tensor
    _drop_buffers(found)
    _drop_duplicates(found, family)
    return found, tuple(left_over), (*notes, *_widths(found))


def modern(name: str, family: Family) -> str:
    """Returns the current name of a weight, without the prefix of the family.

    Task models add the prefix, such as `bert.`, to the names of the encoder's weights. Old files
    call the weights of LayerNorm gamma and beta.
    """
    name = name.replace(".LayerNorm.gamma", ".LayerNorm.weight")
    name = name.replace(".LayerNorm.beta", ".LayerNorm.bias")
    return name.removeprefix(f"{family.kind}.")


def _stored(folder: Path) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    taken, *others = [file for file in FILES if (folder / file).is_file()] or [""]
    if taken:
        notes = (f"the weights are of {taken}, not of {', '.join(others)}",) if others else ()
        read = _torch_tensors if taken.startswith(TORCH) else stored_tensors
        shards = _shards(folder / taken) if taken.endswith(INDEX) else [taken]
        return {n: t for file in shards for n, t in read(folder / file).items()}, notes
    for name, framework in OF_OTHERS.items():
        if (folder / name).is_file():
            raise InputError(
                f"{folder} has its weights in {name} alone, which is {framework}'s; load it in "
                f"transformers 4 and save it again: that writes {SAFETENSORS}"
            )
    raise InputError(f"{folder} has no weights; expected {SAFETENSORS} beside config.json")


def _shards(index: Path) -> list[str]:
    files = json_object(index).get("weight_map")
    files = {*map(str, files.values())} if isinstance(files, dict) else {".."}
    if any(Path(file).name != file or file == ".." for file in files):
        raise InputError(f"{index} has no weight_map of names to files beside it; copy it anew")
    return sorted(files)


def _torch_tensors(path: Path) -> dict[str, StoredTensor]:
    """Reads a pytorch_model.bin; the file is memory-mapped if its format allows it.

    Raises:
        InputError: PyTorch is missing or too old, or the file is damaged or contains anything other
            than a dict of dense tensors.
    """
    refuse_pointer(existing_file(path))
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
    is_zip = zipfile.is_zipfile(path)  # the older format cannot be memory-mapped
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except pickle.UnpicklingError as error:
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


def _drop_buffers(found: dict[str, StoredTensor]) -> None:
    """Removes the position ids and segment ids that older versions of transformers saved."""
    for name, count in ((POSITIONS, np.arange), (SEGMENTS, np.zeros)):
        if name in found:
            numbers = found.pop(name).read().reshape(-1)
            if not np.array_equal(numbers, count(len(numbers))):
                raise InputError(f"{name} is not what BERT has there; its positions count from 0")


def _drop_duplicates(found: dict[str, StoredTensor], family: Family) -> None:
    for pair in TIED.items():
        name, first = (family.weight(each, model=MASKED_LM.name) for each in pair)
        if name not in found:
            continue
        twin = found.pop(name)
        if first not in found:
            found[first] = twin
        elif twin.shape != found[first].shape or not np.array_equal(
            twin.read(), found[first].read(), equal_nan=True
        ):
            raise InputError(
                f"{name} and {first} differ; here they are one weight, as in the original; to go "
                f"on with the second: ignore=({name!r},), or --ignore {name}"
            )


def _widths(found: dict[str, StoredTensor]) -> tuple[str, ...]:
    if others := [name for name, tensor in found.items() if tensor.dtype not in FLOATS]:
        raise InputError(
            f"{', '.join(others)}: of {found[others[0]].dtype}; expected floating point numbers: "
            "save the model as it was before quantising"
        )
    widths = sorted({tensor.dtype for tensor in found.values()} - {"float32"})
    how = {"float64": "rounded to float32"}
    return tuple(
        f"weights stored as {width} are {how.get(width, 'read as float32, the same numbers')}"
        for width in widths
    )
