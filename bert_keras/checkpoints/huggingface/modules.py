"""Reads modules.json of a sentence-transformers model: its encoder and its pooling."""

import json
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from bert_keras.checkpoints.huggingface.config import CONFIG, note_if_ignored
from bert_keras.errors import InputError
from bert_keras.storage import json_object

MODULES = "modules.json"
# On the direction of embeddings, when a model is not trained.
_WITHOUT_EFFECT = ("Normalize", "Dropout")
_MODE = "pooling_mode"  # "mean", or a list of several; older files have a flag for each mode
_MEAN = "pooling_mode_mean_tokens"


def encoder_folder(path: Path, *, ignore: Collection[str]) -> tuple[Path, list[str]]:
    """Returns the folder with the files of the transformers model, and notes.

    This is `path` itself, unless modules.json names another one.

    Args:
        path: The folder of a checkpoint.
        ignore: "Pooling" and the names of other modules allow a model whose embeddings are not the
            mean of the hidden states.

    Raises:
        InputError: modules.json is damaged, or has a module that `ignore` does not contain.
    """
    if not (path / MODULES).is_file():
        return path, []
    try:
        modules = json.loads((path / MODULES).read_text(encoding="utf-8"))
        folders = {each["type"].split(".")[-1]: PurePosixPath(each["path"]) for each in modules}
        encoder = folders.pop("Transformer")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path / MODULES} names no Transformer; expected a file of sentence-transformers"
        ) from error
    for folder in (encoder, *folders.values()):
        if folder.is_absolute() or ".." in folder.parts:
            raise InputError(f"{path / MODULES} names {folder}; expected a subfolder")
    notes = [
        "only the encoder of the sentence-transformers model is read; other modules: "
        f"{', '.join(folders) or 'none'}"
    ]
    for name, folder in folders.items():
        if name in _WITHOUT_EFFECT or (name == "Pooling" and _is_mean(path / folder / CONFIG)):
            continue
        problem = (
            f"the module {name} of {path / MODULES} computes other embeddings than bert-keras, "
            "whose embeddings are the mean of all tokens; the encoder itself is the same"
        )
        notes.append(note_if_ignored(name, problem, ignore=ignore))
    return path / encoder, notes


def _is_mean(file: Path) -> bool:
    config = json_object(file)
    if _MODE in config:
        return config[_MODE] in ("mean", ["mean"])
    return [name for name in config if name.startswith(_MODE) and config[name]] == [_MEAN]
