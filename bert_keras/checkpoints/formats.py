"""Opens a checkpoint of any format, which it detects from the files, and writes any format."""

import errno
import os
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, TextCheckpoint
from bert_keras.checkpoints.keras_hub import may_be_preset, preset_folder
from bert_keras.checkpoints.model_readme import README
from bert_keras.errors import InputError, check_name
from bert_keras.files import atomic_folder, is_remote


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
    "keras-hub": "bert_keras.checkpoints.keras_hub",
    "sentence-transformers": "bert_keras.checkpoints.sentence_transformers.folder",
    "huggingface": "bert_keras.checkpoints.huggingface.folder",
    "google": "bert_keras.checkpoints.google.folder",
}


def open_checkpoint(
    path: str | os.PathLike, *, ignore: Collection[str] = (), pad_vocabulary: bool = False
) -> Checkpoint:
    """Opens a checkpoint and detects its format.

    The arrays of the weights are read only when `StoredTensor.read` is called.

    Args:
        path: A folder in a format of `FORMATS`. A TF1 checkpoint of Google may also be given as its
            path without the suffix `.index`. If no such path exists: the name of a preset of
            KerasHub, such as "bert_base_en_uncased", or a handle
            "hf://USER/MODEL" or "kaggle://...", whose files are downloaded.
        ignore: Names of tensors, configuration keys and tokenizer rules to ignore. Error messages
            state the name where this is possible.
        pad_vocabulary: Whether to append unused tokens if the token table has more rows than the
            vocabulary has tokens.

    Raises:
        InputError: `path` holds no known checkpoint, or its files contradict each other. The
            message names every tensor that is missing, unexpected or has the wrong shape. Or the
            checkpoint has nothing with a name in `ignore`.
    """
    if may_be_preset(path) and (folder := preset_folder(os.fspath(path))):
        path = folder
    if is_remote(path):
        raise InputError(
            f"{path} is not on this machine; copy the folder of the checkpoint to this machine"
        )
    path = Path(path)
    if format := _format_of(path):
        try:
            names = _IgnoredNames(ignore)
            checkpoint = format.read(path, ignore=names, pad_vocabulary=pad_vocabulary)
            names.check_found()
            return checkpoint
        except InputError as error:
            has_path = str(path) in str(error)
            raise InputError(str(error) if has_path else f"{path}: {error}") from error
    if not path.exists():
        raise InputError(
            f"{path} does not exist; expected the folder of a checkpoint on this machine, or the "
            "name of a preset of KerasHub, such as bert_base_en_uncased"
        )
    if path.is_file():
        where = f", {path.parent}" if _format_of(path.parent) else ""
        raise InputError(f"{path} is a file; give the folder of the checkpoint{where}")
    if (path / "saved_model.pb").is_file():
        raise InputError(
            f"{path} is a SavedModel, which contains only the computation; give the folder of the "
            "checkpoint that it was exported from"
        )
    folders = sorted([*path.glob("*"), *path.glob("snapshots/*")])
    for folder in [path / "model", *folders]:  # prefer a run's model to its training checkpoints
        if folder.is_dir() and _format_of(folder):
            raise InputError(f"{path} itself is not a checkpoint; give {folder}")
    raise InputError(
        f"{path} contains no known checkpoint; expected a folder with bert_keras.json (bert-keras),"
        " with config.json and model.safetensors or pytorch_model.bin (Hugging Face), with "
        "modules.json (sentence-transformers), with config.json and model.weights.h5 (KerasHub), "
        "or with bert_config.json and a .ckpt.index (Google)"
    )


def absolute_path(path: str | os.PathLike) -> str:
    """Returns the absolute path of a checkpoint; the name of a preset stays as it is."""
    return os.fspath(path) if may_be_preset(path) else os.path.abspath(path)


class _IgnoredNames(Collection[str]):
    """Names to ignore, and the names that a format module has looked up among them."""

    def __init__(self, names: Collection[str]):
        self.names = names
        self.looked_up: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.looked_up.add(str(name))
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def check_found(self) -> None:
        """Raises InputError for a name that no module has looked up: nothing is called so."""
        for name in self.names:
            if name not in self.looked_up:
                similar = get_close_matches(name, self.looked_up, n=1)
                hint = f"; is it {similar[0]}?" if similar else ""
                raise InputError(f"there is nothing to ignore that is called {name}{hint}")


def open_text_checkpoint(path: str | os.PathLike) -> TextCheckpoint:
    """Opens a checkpoint that has a vocabulary; see `open_checkpoint`.

    Raises:
        InputError: The checkpoint has no vocabulary, which its tokenizer needs.
    """
    checkpoint = open_checkpoint(path)
    if checkpoint.vocabulary is None:
        raise InputError(
            f"{path} has no vocabulary; add the vocab.txt or tokenizer.json that its weights were "
            "trained with"
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
        raise InputError(f"{folder} is not on this machine; write a local folder and copy it")
    if format == "keras-hub":
        checkpoint = cast(Any, _module(format)).storable(checkpoint)
    try:
        with atomic_folder(folder) as temporary:
            notes = _module(format).write(checkpoint, temporary)
            written = _module(format).read(temporary, ignore=(), pad_vocabulary=False)
            _compare(checkpoint, written)
            if written.metadata.embedding != checkpoint.metadata.embedding:
                raise RuntimeError("the pooling or a module after it differs in the written files")
            notes += _head_differences(checkpoint, written)
            if readme:
                (temporary / README).write_text(readme, "utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, reason, os.fspath(folder)) from error
    return notes


def _head_differences(expected: Checkpoint, written: Checkpoint) -> tuple[str, ...]:
    """Returns a note if the format cannot store how the masked-LM head of a model computes."""
    heads = [
        (config.masked_lm_activation, config.masked_lm_epsilon)
        for config in (expected.metadata.config, written.metadata.config)
    ]
    if heads[0] == heads[1]:
        return ()
    return (
        "the masked-LM head of this model is KerasHub's, whose activation or LayerNorm epsilon "
        "differs from the encoder's; the format cannot state this: logits differ by up to 2e-3",
    )


def _compare(expected: Checkpoint, written: Checkpoint) -> None:
    pairs = [(expected.tensors, written.tensors)]
    if expected.state is not None and written.state is not None:
        pairs.append((expected.state.momentums, written.state.momentums))
        pairs.append((expected.state.velocities, written.state.velocities))
    for tensors, read_back in pairs:
        for name, tensor in tensors.items():
            array = read_back[name].read() if name in read_back else np.array(())
            if not np.array_equal(tensor.read(), array, equal_nan=True):
                raise RuntimeError(f"{name} differs in the files that were written")


def _format_of(path: Path) -> Format | None:
    return next((format for format in map(_module, FORMATS) if format.recognises(path)), None)


def _module(name: str) -> Format:
    return cast(Format, import_module(FORMATS[name]))
