"""Opens a checkpoint of any format, which it detects from the files, and writes any format."""

import contextlib
import dataclasses
import errno
import os
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from bert_keras.checkpoints.checkpoint import Checkpoint, TextCheckpoint
from bert_keras.checkpoints.hub import is_name, located
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, check, check_name
from bert_keras.files import atomic_folder, is_remote

# The module of each format, imported on first use. It defines `recognises(path)`, which
# `open_checkpoint` calls in this order; `read(path, *, ignore)`, which returns a Checkpoint;
# `stored_config(path)`, which returns its BertConfig, without Keras if it is no preset; and
# `write(checkpoint, folder)`, which fills an empty folder and returns how other readers differ.
FORMATS = {
    "bert-keras": "bert_keras.checkpoints.native",
    "keras-hub": "bert_keras.checkpoints.keras_hub_preset",
    "sentence-transformers": "bert_keras.checkpoints.sentence_transformers",
    "huggingface": "bert_keras.checkpoints.huggingface.folder",
    "google": "bert_keras.checkpoints.google",
}


def open_checkpoint(
    path: str | os.PathLike,
    *,
    revision: str | None = None,
    ignore: Collection[str] = (),
    pad_vocabulary: bool = False,
) -> Checkpoint:
    """Opens a checkpoint and detects its format.

    The arrays of the weights are read only when `StoredTensor.read` is called, and compared with
    those of a model when it is built.

    Args:
        path: A folder in a format of `FORMATS`. A TF1 checkpoint of Google may also be given as its
            path without the suffix `.index`. Other names are downloaded: those of Hugging Face such
            as "klue/bert-base", also with "@REVISION" or "hf://"; presets of KerasHub; "kaggle://..."
        revision: A branch, tag or commit of the name of Hugging Face.
        ignore: Names of tensors, configuration keys and tokenizer rules to ignore. Error messages
            state the name where this is possible.
        pad_vocabulary: Whether to append unused tokens if the embedding matrix has more rows
            than the vocabulary has tokens.

    Raises:
        InputError: `path` holds no known checkpoint, its files contradict each other, or it cannot
            be downloaded.
    """
    found = f"the model is {path!r}; expected a folder or a name"
    check(path and isinstance(path, (str, os.PathLike)), found)
    name = os.fspath(path)
    found = f"revision is {revision!r}, but {name} is no name of Hugging Face"
    check(revision is None or is_name(path), found)
    path = located(path, revision=revision)
    with _errors_of(name, path):
        checkpoint = format_of(path).read(path, ignore=ignore)
        rows, vocabulary = checkpoint.metadata.config.vocab_size, checkpoint.vocabulary
        if pad_vocabulary and vocabulary is not None:
            checkpoint = dataclasses.replace(checkpoint, vocabulary=vocabulary.padded(rows))
        checkpoint.check_vocabulary()
        return checkpoint


def stored_config(path: str | os.PathLike) -> BertConfig:
    """Returns the configuration of a checkpoint, of which no weight is read."""
    folder = located(path)
    with _errors_of(os.fspath(path), folder):
        return format_of(folder).stored_config(folder)


@contextlib.contextmanager
def _errors_of(name: str, path: Path) -> Iterator[None]:
    """Makes the errors of a checkpoint name it as the user does."""
    try:
        yield
    except InputError as error:
        text = str(error).replace(str(path), name)
        raise InputError(text if name in text else f"{name}: {text}") from error
    except (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise InputError(f"{name} is damaged ({error!r}); copy or write it again") from error


def _why_unknown(path: Path) -> str:
    if path.is_file():
        return f"{path} is a file; give the folder of the checkpoint"
    if exported := [each for n in range(3) for each in path.glob("*/" * n + "saved_model.pb")]:
        folder = exported[0].parent.parent
        remedy = f"give the model that it was exported from, or bert-keras serve {folder}"
        return f"{path} is an exported model; {remedy}"
    # A run's model is preferred to its training checkpoints.
    folders = [path / "model", *sorted([*path.glob("*"), *path.glob("snapshots/*")])]
    if inner := next((each for each in folders if each.is_dir() and _format_of(each)), None):
        return f"{path} itself is not a checkpoint; give {inner}"
    if (path / "recipe.json").is_file():
        return f"{path} is a run without a model; repeat the command that started it"
    if any(path.glob("*.tfrecord")):
        return f"{path} is a folder of records; expected a model, which bert-keras pretrain writes"
    return (
        f"{path} contains no known checkpoint; expected a folder with bert_keras.json, modules.json"
        " (sentence-transformers), config.json and weights (Hugging Face or KerasHub), or "
        "bert_config.json and a .ckpt.index (Google)"
    )


def absolute_path(path: str | os.PathLike) -> str:
    """Returns the absolute path of a checkpoint; a name to download stays as it is."""
    return os.fspath(path) if is_name(path) else os.path.abspath(path)


def open_text_checkpoint(path: str | os.PathLike) -> TextCheckpoint:
    """Opens a checkpoint that has a vocabulary; see `open_checkpoint`."""
    checkpoint = open_checkpoint(path)
    check(
        checkpoint.vocabulary is not None,
        f"{path} has no vocabulary; add the vocab.txt or tokenizer.json that its weights were "
        "trained with",
    )
    return TextCheckpoint(**vars(checkpoint))


def write_checkpoint(
    checkpoint: Checkpoint, folder: str | os.PathLike, *, format: str, readme: str = ""
) -> tuple[str, ...]:
    """Writes a new folder, as a whole or not at all; returns how readers of the format differ.

    The folder must not exist yet or be empty. `readme` is the text of a README.md; "" writes none.
    """
    check(format != "keras-hub", "KerasHub reads the format huggingface; write that one")
    check_name(format, FORMATS.keys() - {"keras-hub"}, what="format")
    check(not is_remote(folder), f"{folder} is not on this machine; write a local one and copy it")
    checkpoint.check_vocabulary()
    try:
        with atomic_folder(folder) as temporary:
            notes = _module(format).write(checkpoint, temporary)
            if readme:
                (temporary / "README.md").write_text(readme, "utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, reason, os.fspath(folder)) from error
    return notes


def format_of(path: Path) -> ModuleType:
    """Returns the module in `FORMATS` of a checkpoint; raises InputError if there is none."""
    if (found := _format_of(path)) is None:
        raise InputError(_why_unknown(path))
    return found


def _format_of(path: Path) -> ModuleType | None:
    return next((format for format in map(_module, FORMATS) if format.recognises(path)), None)


def _module(name: str) -> ModuleType:
    return import_module(FORMATS[name])
