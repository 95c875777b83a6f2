"""Downloads checkpoints by their names on Hugging Face, in KerasHub or on Kaggle."""

import importlib.util
import os
import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from bert_keras.errors import InputError, require
from bert_keras.families import FAMILIES, hub_names
from bert_keras.files import StrPath, check_exists, near_path

HUGGING_FACE, KAGGLE = "hf://", "kaggle://"
# A name such as "klue/bert-base@main" has at most one slash: longer paths are not downloaded.
_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?(@[\w./-]+)?", re.ASCII)
_PRESET = re.compile(r"(albert|bert|distil_bert|roberta)_\w+_(en|multi|zh)\w*", re.ASCII)
_FILES = ("*.safetensors", "*.weights.h5", "*.json", "*.txt", "*.model", "*.spm", "*Dense/*.bin")
_FILES += ("*_linear.pt",)  # the report of a load names them


def is_name(path: StrPath) -> bool:
    """Returns whether `path` is a name to download, neither a local file nor written as a path."""
    if not isinstance(path, str) or os.path.exists(path) or os.path.exists(f"{path}.index"):  # TF1
        return False
    return path.startswith((HUGGING_FACE, KAGGLE)) or _NAME.fullmatch(path) is not None


def locate(path: StrPath, *, revision: str | None = None) -> Path:
    """Returns the path of a checkpoint, which is downloaded if `path` is a name."""
    if is_name(path):
        return download(str(path), revision)
    if not os.path.exists(f"{os.fspath(path)}.index"):  # a TF1 checkpoint
        check_exists(path, expected="the folder of a checkpoint on this machine")
    return Path(path)


@cache
def download(name: str, revision: str | None = None) -> Path:
    """Downloads a checkpoint, unless it is in the cache of its hub, and returns its folder."""
    handle = name
    if _PRESET.fullmatch(name):
        require("keras_hub", what=name)
        import keras_hub

        handle = keras_hub.models.Backbone.presets.get(name, {}).get("kaggle_handle", name)
    if handle.startswith(KAGGLE):
        import kagglehub

        return Path(kagglehub.model_download(handle.removeprefix(KAGGLE)))
    from huggingface_hub import errors, snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE

    name, _, tag = name.removeprefix(HUGGING_FACE).partition("@")
    wanted = {"allow_patterns": _FILES, "ignore_patterns": "checkpoint-*"}
    try:
        folder = Path(snapshot_download(name, revision=revision or tag or None, **wanted))
        if not any(any(folder.glob(weights)) for weights in _FILES[:2]):
            if importlib.util.find_spec("torch") is None:
                raise InputError(f"{name} has only pytorch_model.bin; pip install torch")
            snapshot_download(name, revision=folder.name, allow_patterns="pytorch_model*.bin")
        return folder
    except (
        errors.LocalEntryNotFoundError,  # no network, or HF_HUB_OFFLINE
        errors.RepositoryNotFoundError,
        errors.HFValidationError,
    ) as error:
        gated = f"private: set HF_TOKEN; gated: see https://huggingface.co/{name}"
        place = f"a public model of Hugging Face ({gated})"
        if isinstance(error, errors.LocalEntryNotFoundError):
            remedy = "unset HF_HUB_OFFLINE" if HF_HUB_OFFLINE else "connect to Hugging Face"
            place = f"downloaded; {remedy}"
        message = f"{name} is neither a folder here nor {place}{_suggest_near(name)}"
        raise InputError(message) from error


def _suggest_near(name: str) -> str:
    """Suggests an existing path or known names that are similar, or lists the families."""
    known = {each.rpartition("/")[2]: each for each in reversed(hub_names())}
    known |= {each: each for each in hub_names()}
    close = [name] if name in known else get_close_matches(name, known, 2, 0.8)
    near = dict.fromkeys(known[each] for each in close if known[each] != name)
    if hint := near_path(name):
        return hint
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return "" if name in known else f"; supported are models of the kinds {', '.join(FAMILIES)}"
