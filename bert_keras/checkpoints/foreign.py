"""Shared by the formats of other libraries: our metadata in their JSON files, checks of their keys.

What a format has no field for is stored under one key of ours, which its own readers ignore.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.errors import InputError

OURS_KEY = "bert_keras"
# Fields of a ModelCard that may be stored under our key.
FIELDS = {
    "lowercase": bool,
    "max_length": int,
    "text_columns": list,
    "labels": list,
    "problem_type": str,
    "task": dict,
}
TEXTS = ("text_columns", "labels")


def checked(own: Any, path: Path, *, others: Collection[str]) -> dict[str, Any]:
    """Returns the value of our key in the file `path`.

    Raises:
        InputError: for anything but a dict of FIELDS, of their types, and `others`.
    """
    right = (
        isinstance(own, dict)
        and set(own) <= {*FIELDS, *others}
        and all(type(own.get(name, kind())) is kind for name, kind in FIELDS.items())
        and all(type(text) is str for name in TEXTS for text in own.get(name, ()))
    )
    if not right:
        raise InputError(f"{path}: {OURS_KEY} is not what bert-keras wrote; remove that key")
    return own


def stored_fields(card: ModelCard) -> dict[str, Any]:
    """Returns all FIELDS of a card."""
    return {name: getattr(card, name) for name in FIELDS}


def training_fields(own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a ModelCard that only our key can state, empty where it does not."""
    return {
        "text_columns": tuple(own.get("text_columns", ())),
        "problem_type": own.get("problem_type", ""),
        "task": own.get("task", {}),
    }


def check_keys(
    values: Mapping[str, Any],
    path: Path,
    *,
    required: Collection[str],
    optional: Collection[str],
    ignore: Collection[str],
    reader: str,
) -> None:
    """Raises InputError for keys that are missing, and for unknown ones that `ignore` does not
    name; `reader` is whose configuration it is."""
    if missing := [name for name in required if name not in values]:
        raise InputError(f"{path} lacks {', '.join(missing)}; complete it")
    if unknown := [name for name in values if name not in (*required, *optional, *ignore)]:
        raise InputError(
            f"{path} has {', '.join(unknown)}, unknown to {reader}; where that changes nothing, "
            f"name it to leave it: ignore=({unknown[0]!r},), or --ignore {unknown[0]}"
        )


def config_of(values: Mapping[str, Any], path: Path | str) -> BertConfig:
    """Returns the config; an InputError names the file."""
    try:
        return BertConfig(**values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def write_json(path: Path, values: Mapping[str, Any], *, indent: int = 2) -> None:
    """Writes the file as UTF-8 JSON."""
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
