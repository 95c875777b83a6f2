"""Opens a checkpoint of any format, which it detects from the files, and writes any format."""

import errno
import os
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, TextCheckpoint
from bert_keras.checkpoints.model_readme import README
from bert_keras.errors import InputError, check_name
from bert_keras.storage import is_remote, whole_folder


class Format(Protocol):
    """The functions that the module of a checkpoint format defines."""

    def recognises(self, path: Path) -> bool:
        """Returns whether `path` holds a checkpoint of this format."""
        ...

    def read(self, path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
        """Reads the checkpoint at `path`; see `open_checkpoint` for arguments and errors."""
        ...

    def write(self, checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
        """Writes `checkpoint` into an empty folder.

        Returns:
            One sentence for each computation that the readers of this format do differently.
        """
        ...


# The module of each format, imported on first use. `open_checkpoint` calls `recognises` of these
# modules in this order.
FORMATS = {
    "bert-keras": "bert_keras.checkpoints.native",
    "keras-hub": "bert_keras.checkpoints.keras_hub.folder",
    "huggingface": "bert_keras.checkpoints.huggingface.folder",
    "google": "bert_keras.checkpoints.google.folder",
}


def open_checkpoint(
    path: str | os.PathLike, *, ignore: Collection[str] = (), pad_vocabulary: bool = False
) -> Checkpoint:
    """Opens a checkpoint and detects its format.

    The arrays of the weights are read only when `StoredTensor.read` is called.

    Args:
        path: A folder in the native, Hugging Face, KerasHub or Google format. A TF1 checkpoint of
            Google may also be given as its path without the suffix `.index`.
        ignore: Names of tensors, configuration keys and tokenizer rules to ignore. Error messages
            state the name where this is possible.
        pad_vocabulary: Whether to append unused tokens if the token table has more rows than the
            vocabulary has tokens.

    Raises:
        InputError: `path` holds no known checkpoint, or its files contradict each other. The
            message names every tensor that is missing, unexpected or has the wrong shape.
    """
    if is_remote(path):
        raise InputError(f"{path} is not on this machine; copy the checkpoint's folder here first")
    path = Path(path)
    if format := _format_of(path):
        try:
            return format.read(path, ignore=ignore, pad_vocabulary=pad_vocabulary)
        except InputError as error:
            named = str(path) in str(error)
            raise InputError(str(error) if named else f"{path}: {error}") from error
    if not path.exists():
        raise InputError(
            f"{path} does not exist; expected a checkpoint's folder on this machine (nothing is "
            "downloaded)"
        )
    if path.is_file():
        raise InputError(f"{path} is a file; give the checkpoint's folder, {path.parent}")
    if (path / "saved_model.pb").is_file():
        raise InputError(
            f"{path} is a SavedModel, which answers and no more; give the checkpoint's folder that "
            "it was exported from"
        )
    near_ones = sorted([*path.glob("*"), *path.glob("snapshots/*")])
    for near in [path / "model", *near_ones]:  # prefer a run's model to its training checkpoints
        if near.is_dir() and _format_of(near):
            raise InputError(f"{path} holds no checkpoint itself; give {near}")
    raise InputError(
        f"{path} holds no checkpoint that is known; expected a folder with bert_keras.json (ours), "
        "with config.json beside model.safetensors or pytorch_model.bin (Hugging Face), with "
        "config.json beside model.weights.h5 (KerasHub), or with bert_config.json and a "
        ".ckpt.index (Google)"
    )


def open_text_checkpoint(path: str | os.PathLike) -> TextCheckpoint:
    """Opens a checkpoint that has a vocabulary; see `open_checkpoint`.

    Raises:
        InputError: The checkpoint has no vocabulary, which its tokenizer needs.
    """
    checkpoint = open_checkpoint(path)
    if checkpoint.vocabulary is None:
        raise InputError(
            f"{path} comes without a vocabulary; put the vocab.txt or tokenizer.json there "
            "that its weights were trained with"
        )
    return TextCheckpoint(**vars(checkpoint))


def write_checkpoint(
    checkpoint: Checkpoint, folder: str | os.PathLike, *, format: str, readme: str = ""
) -> tuple[str, ...]:
    """Writes a checkpoint as a new folder.

    The function writes a temporary folder, reads every tensor back and compares it bit for bit. It
    then renames the folder, so that an error leaves no incomplete checkpoint.

    Args:
        checkpoint: The contents to write.
        folder: The folder, which must not exist yet or be empty.
        format: A name in `FORMATS`.
        readme: The text of a README.md; "" writes none.

    Returns:
        One sentence for each computation that the readers of the format do differently.

    Raises:
        InputError: The format is unknown or cannot store the model, or `folder` has contents.
        RuntimeError: A tensor read back differs from the one written.
        OSError: The folder cannot be written.
    """
    check_name(format, FORMATS, what="format")
    if is_remote(folder):
        raise InputError(f"{folder} is not on this machine; write here and copy it there")
    try:
        with whole_folder(folder) as beside:
            notes = _module(format).write(checkpoint, beside)
            _compare(checkpoint, _module(format).read(beside, ignore=(), pad_vocabulary=False))
            if readme:
                (beside / README).write_text(readme, "utf-8")
    except OSError as error:
        told = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, told, os.fspath(folder)) from error
    return notes


def _compare(given: Checkpoint, back: Checkpoint) -> None:
    pairs = [(given.tensors, back.tensors)]
    if given.state is not None and back.state is not None:
        pairs.append((given.state.momentums, back.state.momentums))
        pairs.append((given.state.velocities, back.state.velocities))
    for tensors, read_back in pairs:
        for name, tensor in tensors.items():
            found = read_back[name].read() if name in read_back else np.array(())
            if not np.array_equal(tensor.read(), found, equal_nan=True):
                raise RuntimeError(f"{name} does not come back from what was written")


def _format_of(path: Path) -> Format | None:
    return next((each for each in map(_module, FORMATS) if each.recognises(path)), None)


def _module(name: str) -> Format:
    return cast(Format, import_module(FORMATS[name]))
