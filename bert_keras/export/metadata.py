"""The metadata that travels with a SavedModel, as a JSON file."""

import dataclasses
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from bert_keras.checkpoints.card import ModelCard
from bert_keras.runs.outcome import MODEL, RECIPE, SCORES
from bert_keras.storage import json_object, write_text

METADATA = "assets.extra/bert_keras.json"
_LIBRARIES = ("bert-keras", "tensorflow", "tensorflow-text", "keras")


def metadata_of(card: ModelCard, *, model_folder: str | os.PathLike) -> dict:
    """What travels with a SavedModel: `card` with its labels, lengths and config; `training`, the
    recipe and scores where `model_folder` lies in a run's folder; `versions` of libraries."""
    return {
        "card": dataclasses.asdict(card),
        "training": _training(Path(model_folder)),
        "versions": {name: version(name) for name in _LIBRARIES},
    }


def write_metadata(folder: str | os.PathLike, metadata: Mapping) -> None:
    """Adds the metadata file to a SavedModel."""
    text = json.dumps(metadata, indent=2, ensure_ascii=False)
    write_text(Path(folder) / METADATA, f"{text}\n")


def _training(model_folder: Path) -> dict:
    if model_folder.name != MODEL:
        return {}
    files = {name: model_folder.parent / name for name in (RECIPE, SCORES)}
    return {path.stem: json_object(path) for path in files.values() if path.is_file()}
