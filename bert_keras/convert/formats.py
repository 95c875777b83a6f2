"""A checkpoint of any format in, recognised by what it holds, and a folder of any format out."""

import os
from collections.abc import Collection
from importlib import import_module
from pathlib import Path

from bert_keras.convert.checkpoint import Checkpoint
from bert_keras.errors import InputError
from bert_keras.storage import whole_folder

# Each module has `recognises`, `read` and `write`; none is imported before it is needed.
FORMATS = {
    "bert-keras": "folder",
    "keras-hub": "keras_hub.folder",
    "huggingface": "huggingface.folder",
    "google": "google.folder",
}


def open_checkpoint(
    path: str | os.PathLike, *, ignore: Collection[str] = (), pad_vocabulary: bool = False
) -> Checkpoint:
    """What `path` holds: a folder of ours, of Hugging Face or of KerasHub, or a TF1 checkpoint of
    Google's (its folder, or the path without `.index`). Arrays are read when asked for.

    Raises InputError that names every tensor missing, misshapen or unexpected, but for those named
    in `ignore`. `pad_vocabulary` adds unused pieces up to the rows of the token table.
    """
    path = Path(path)
    for name in FORMATS:
        if _module(name).recognises(path):
            try:
                return _module(name).read(path, ignore=ignore, pad_vocabulary=pad_vocabulary)
            except InputError as error:
                named = str(path) in str(error)
                raise InputError(str(error) if named else f"{path}: {error}") from error
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a checkpoint's folder")
    raise InputError(
        f"{path} holds no checkpoint that is known; expected a folder with bert_keras.json (ours), "
        "with config.json beside model.safetensors or pytorch_model.bin (Hugging Face), with "
        "config.json beside model.weights.h5 (KerasHub), or with bert_config.json and a "
        ".ckpt.index (Google)"
    )


def open_text_checkpoint(path: str | os.PathLike) -> Checkpoint:
    """One that knows its vocabulary too, else InputError: text cannot become its input."""
    checkpoint = open_checkpoint(path)
    if checkpoint.vocabulary is None:
        raise InputError(
            f"{path} comes without a vocabulary; put the vocab.txt there that its weights were "
            "trained with"
        )
    return checkpoint


def write_checkpoint(
    checkpoint: Checkpoint, folder: str | os.PathLike, *, format: str
) -> tuple[str, ...]:
    """Write a new folder, whole or not at all; returns a sentence for each thing that its readers
    will do otherwise. Raises InputError for an unknown format, a model that it has no place for, or
    a folder that is already there.
    """
    if format not in FORMATS:
        raise InputError(f"no format is called {format!r}; known: {', '.join(FORMATS)}")
    with whole_folder(folder) as beside:
        return _module(format).write(checkpoint, beside)


def _module(name: str):
    return import_module(f"bert_keras.convert.{FORMATS[name]}")
