"""Opens a checkpoint of any format, which it detects from the files, and writes any format."""

import contextlib
import dataclasses
import errno
import os
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from bert_keras.checkpoints import native
from bert_keras.checkpoints.checkpoint import Checkpoint, TextCheckpoint, require_vocabulary
from bert_keras.checkpoints.hub import is_name, locate
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, check_name
from bert_keras.files import StrPath, atomic_folder, existing_file, is_remote

# The module of each format, imported on first use. It defines `recognises(path)`, which
# `detect_format` calls in this order; `read(path, *, ignore)`, which returns a Checkpoint;
# `stored_config(path)`, which returns its BertConfig, without Keras except for presets of KerasHub;
# and `write(checkpoint, folder)`, which fills an empty folder and returns how its readers differ.
FORMATS = {
    "bert-keras": "bert_keras.checkpoints.native",
    "keras-hub": "bert_keras.checkpoints.keras_hub_preset",
    "sentence-transformers": "bert_keras.checkpoints.sentence_transformers",
    "huggingface": "bert_keras.checkpoints.huggingface.folder",
    "google": "bert_keras.checkpoints.google",
}


def open_checkpoint(
    path: StrPath,
    *,
    revision: str | None = None,
    ignore: Collection[str] = (),
    pad_vocabulary: bool = False,
) -> Checkpoint:
    """Opens a checkpoint and detects its format.

    The arrays of the weights are read only when `StoredTensor.read` is called. Their shapes are
    compared with the model's when it is built.

    Args:
        path: A folder in a format of `FORMATS`. A TF1 checkpoint of Google may also be given as its
            path without the suffix `.index`. Other names are downloaded: names of Hugging Face such
            as "klue/bert-base", also with "@REVISION" or "hf://"; presets of KerasHub; "kaggle://..."
        revision: A branch, tag or commit of a model on Hugging Face.
        ignore: Names of tensors, configuration keys and tokenizer rules to ignore. Error messages
            state the name if something can be ignored.
        pad_vocabulary: Whether to append unused tokens if the embedding matrix has more rows
            than the vocabulary has tokens.

    Raises:
        InputError: `path` is not a known checkpoint, its files contradict each other, or it cannot
            be downloaded. huggingface_hub raises its own error for an unknown revision.
    """
    if revision is not None and not is_name(path):
        raise InputError(f"revision is {revision!r}, but {path} is not a name on Hugging Face")
    folder = locate(path, revision=revision)
    format = detect_format(folder)
    with _errors_with_name(path):
        checkpoint = format.read(folder, ignore=ignore)
        rows, vocabulary = checkpoint.metadata.config.vocab_size, checkpoint.vocabulary
        if pad_vocabulary and vocabulary is not None:
            checkpoint = dataclasses.replace(checkpoint, vocabulary=vocabulary.padded(rows))
        checkpoint.check_vocabulary()
        return checkpoint


def stored_config(path: StrPath) -> BertConfig:
    """Returns the configuration of a checkpoint without reading its weights."""
    folder = locate(path)
    format = detect_format(folder)
    with _errors_with_name(path):
        return format.stored_config(folder)


@contextlib.contextmanager
def _errors_with_name(name: StrPath) -> Iterator[None]:
    """Adds the name of a checkpoint to the errors of reading it."""
    try:
        yield
    except Exception as error:  # `tokenizers` raises no other class
        if isinstance(error, OSError) and error.errno:
            raise
        damage = f"a file is damaged ({error!r}); copy or write it again"
        raise InputError(f"{name}: {error if isinstance(error, InputError) else damage}") from error


def absolute_path(path: StrPath) -> str:
    """Returns the absolute path of a checkpoint, or the unchanged name of one to download."""
    return os.fspath(path) if is_name(path) else os.path.abspath(path)


def open_text_checkpoint(path: StrPath) -> TextCheckpoint:
    """Opens a checkpoint that has a vocabulary; see `open_checkpoint`."""
    checkpoint = open_checkpoint(path)
    require_vocabulary(checkpoint.vocabulary, source=path)
    return TextCheckpoint(**vars(checkpoint))


def write_checkpoint(
    checkpoint: Checkpoint,
    folder: StrPath,
    *,
    format: str,
    overwrite: bool = False,
    readme: str = "",
) -> tuple[str, ...]:
    """Writes a new folder, completely or not at all; returns how readers of the format differ.

    Args:
        folder: The folder, on this machine.
        format: A name in `FORMATS`, except "keras-hub".
        overwrite: Whether to replace a "bert-keras" folder that contains nothing else.
        readme: The contents of README.md; "" writes none.
    """
    check_name(format, FORMATS.keys() - {"keras-hub"}, what="format")
    if is_remote(folder):
        raise InputError(f"{folder} is not on this machine; write a local folder and copy it")
    checkpoint.check_vocabulary()
    try:
        with atomic_folder(folder, replaces=native.FILES if overwrite else ()) as new_folder:
            notes = import_module(FORMATS[format]).write(checkpoint, new_folder)
            if readme:
                (new_folder / "README.md").write_text(readme, "utf-8")
    except OSError as error:  # the new error names the folder instead of a file in it
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, reason, os.fspath(folder)) from error
    return notes


def detect_format(path: Path) -> ModuleType:
    """Returns the module in `FORMATS` of a checkpoint; raises InputError if there is none."""
    for pattern in ("*", "*/*", "*/*/*"):
        for each in filter(Path.exists, path.glob(pattern)):
            existing_file(each)  # raises InputError for a pipe
    if (format := _find_format(path)) is None:
        raise InputError(_explain_unknown(path))
    return format


def _find_format(path: Path) -> ModuleType | None:
    modules = map(import_module, FORMATS.values())
    return next((each for each in modules if each.recognises(path)), None)


def _explain_unknown(path: Path) -> str:
    if path.is_file():
        return f"{path} is a file; give the folder of the checkpoint"
    if exported := [each for i in range(3) for each in path.glob("*/" * i + "saved_model.pb")]:
        folder = exported[0].parent.parent
        return f"{path} is an exported model; give its source, or bert-keras serve {folder}"
    # A run's model is preferred to its training checkpoints.
    folders = [path / "model", *sorted([*path.glob("*"), *path.glob("snapshots/*")])]
    if inner := next((each for each in folders if each.is_dir() and _find_format(each)), None):
        return f"{path} itself is not a checkpoint; give {inner}"
    if (path / "recipe.json").is_file():
        return f"{path} is a run without a model; repeat the command that started it"
    if any(path.glob("*.tfrecord")):
        return f"{path} is a folder of records; expected a model, which bert-keras pretrain writes"
    return (
        f"{path} contains no known checkpoint; expected a folder with bert_keras.json, "
        "modules.json, config.json and weights, or bert_config.json and a .ckpt.index"
    )
