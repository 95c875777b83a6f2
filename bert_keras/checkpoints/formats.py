"""Opens a checkpoint of any format, recognised by its files, and writes one in any format."""

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
    """The functions of a format's module."""

    def recognises(self, path: Path) -> bool:
        """Returns whether `path` holds a checkpoint of this format."""
        ...

    def read(self, path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
        """Reads `path`; arguments and errors as of `open_checkpoint`."""
        ...

    def write(self, checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
        """Writes into an empty folder; returns a sentence for each thing that the format's own
        readers do differently."""
        ...


# A format's module, imported when it is needed; `open_checkpoint` asks them in this order.
FORMATS = {
    "bert-keras": "bert_keras.checkpoints.native",
    "keras-hub": "bert_keras.checkpoints.keras_hub.folder",
    "huggingface": "bert_keras.checkpoints.huggingface.folder",
    "google": "bert_keras.checkpoints.google.folder",
}


def open_checkpoint(
    path: str | os.PathLike, *, ignore: Collection[str] = (), pad_vocabulary: bool = False
) -> Checkpoint:
    """What `path` holds: a folder of ours, of Hugging Face or of KerasHub, or a TF1 checkpoint of
    Google's (its folder, or the path without `.index`). Arrays are read when asked for.

    Raises InputError that names every tensor missing, misshapen or unexpected, but for those named
    in `ignore`. `pad_vocabulary` adds unused pieces up to the rows of the token table.
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
    for near in [path / "model", *near_ones]:  # a run's model, before its states
        if near.is_dir() and _format_of(near):
            raise InputError(f"{path} holds no checkpoint itself; give {near}")
    raise InputError(
        f"{path} holds no checkpoint that is known; expected a folder with bert_keras.json (ours), "
        "with config.json beside model.safetensors or pytorch_model.bin (Hugging Face), with "
        "config.json beside model.weights.h5 (KerasHub), or with bert_config.json and a "
        ".ckpt.index (Google)"
    )


def open_text_checkpoint(path: str | os.PathLike) -> TextCheckpoint:
    """One that knows its vocabulary too, else InputError: text cannot become its input."""
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
    """Write a new folder, whole or not at all: it takes its name when every tensor has been read
    back equal, bit for bit. Returns a sentence for each thing that its readers will do otherwise.
    Raises InputError for an unknown format, a model that it has no place for, or a folder that is
    already there.
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
