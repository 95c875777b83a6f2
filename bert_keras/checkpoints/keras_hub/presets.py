"""Finds presets of KerasHub by name or handle; keras_hub downloads and caches their files."""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from bert_keras.checkpoints.huggingface.weights import SAFETENSORS
from bert_keras.checkpoints.keras_hub.families import CLASSES, HUB_FAMILIES
from bert_keras.checkpoints.sentence_transformers.folder import SENTENCES
from bert_keras.checkpoints.sentence_transformers.modules import MODULES, SETTINGS, read_modules
from bert_keras.errors import InputError

HANDLES = ("hf://", "kaggle://")
# Names of the presets of our families start like this. Only then keras_hub is imported, which takes
# seconds.
_NAMES = re.compile(r"(albert|bert|distil_bert|roberta)_[a-z0-9_]+")
CONFIG = "config.json"
_ASSETS = tuple(
    f"assets/tokenizer/{name}"
    for name in ("vocabulary.txt", "vocabulary.json", "merges.txt", "vocabulary.spm")
)
# Other files of a preset, and files of transformers and sentence-transformers, which a handle may
# also name.
FILES = (
    *("metadata.json", "model.weights.h5", "model.weights.json", "task.json", "task.weights.h5"),
    *("tokenizer.json", "preprocessor.json", *_ASSETS),
)
TRANSFORMERS_FILES = (
    *(SAFETENSORS, f"{SAFETENSORS}.index.json", "tokenizer.json", "vocab.txt"),
    *("tokenizer_config.json", "added_tokens.json", "vocab.json", "merges.txt", "spiece.model"),
    *(MODULES, SETTINGS, SENTENCES),
)


def may_be_preset(path: str | os.PathLike) -> bool:
    """Returns whether `path` is a handle, or no existing path and written like a preset's name."""
    name = os.fspath(path)
    return name.startswith(HANDLES) or (
        _NAMES.fullmatch(name) is not None and not os.path.exists(name)
    )


def preset_folder(name: str) -> Path | None:
    """Returns the folder with the files of a preset, which keras_hub downloads if necessary.

    Args:
        name: The name of a preset of keras_hub, or a handle "hf://..." or "kaggle://...".

    Returns:
        The folder, or None if no preset has this name.

    Raises:
        InputError: The preset does not exist or cannot be downloaded.
    """
    from keras_hub.src.utils import preset_utils

    if not name.startswith(HANDLES) and name not in _names():
        return None
    reason = ""
    try:
        with contextlib.ExitStack() as stack:
            if name.startswith("hf://"):
                reason = stack.enter_context(_offline_if_unreachable())
            config = Path(preset_utils.get_file(name, CONFIG))
            is_transformers = "model_type" in json.loads(config.read_text("utf-8"))
            for file in TRANSFORMERS_FILES if is_transformers else FILES:
                _download(name, file)
    except Exception as error:  # of each library that downloads, and of its network library
        kind = type(error).__name__
        if not reason:
            is_network = "Connect" in kind or "Timeout" in kind
            reason = f"no connection, {kind}" if is_network else f"{error}".partition("\n")[0]
        raise InputError(
            f"{name} is no folder, and as a preset of KerasHub it could not be downloaded "
            f"({reason}); check its name and the network, or give the folder of a checkpoint on "
            "this machine"
        ) from error
    return config.parent


def _names() -> set[str]:
    """Returns the names of the presets of our families in keras_hub."""
    import keras_hub

    classes = [
        getattr(keras_hub.models, hub.class_name(model))
        for hub in HUB_FAMILIES.values()
        for model in CLASSES
    ]
    return {name for each in classes for name in each.presets}


def _download(name: str, file: str) -> None:
    """Downloads a file of a preset, if the preset has it, and the files that the file names."""
    from keras_hub.src.utils import preset_utils

    with contextlib.suppress(FileNotFoundError):
        for other in _named_files(Path(preset_utils.get_file(name, file))):
            _download(name, other)


def _named_files(path: Path) -> set[str]:
    """Returns the names of the files that a file names: shards of weights, or files of modules."""
    if path.name == MODULES:
        folders = [module.folder.relative_to(path.parent) for module in read_modules(path.parent)]
        return {str(folder / file) for folder in folders for file in (CONFIG, SAFETENSORS)}
    if path.name not in ("model.weights.json", f"{SAFETENSORS}.index.json"):
        return set()
    files = json.loads(path.read_text("utf-8"))["weight_map"].values()
    return {name for each in files for name in ([each] if isinstance(each, str) else each)}


@contextlib.contextmanager
def _offline_if_unreachable() -> Iterator[str]:
    """Asks the server of Hugging Face once, and uses only cached files if it does not respond.

    huggingface_hub itself would wait and ask again, about 24 s for each file.

    Yields:
        The reason why only cached files are used, "" if the server responds.
    """
    from huggingface_hub import constants, get_session

    reason, was_offline = "", constants.HF_HUB_OFFLINE
    try:
        get_session().head(constants.ENDPOINT, timeout=5)
    except Exception as error:  # of the network library that huggingface_hub uses
        reason = f"{constants.ENDPOINT} cannot be reached: {error}"
    constants.HF_HUB_OFFLINE = was_offline or bool(reason)
    try:
        yield reason
    finally:
        constants.HF_HUB_OFFLINE = was_offline
