"""Stores our metadata in the JSON files of other libraries' formats, and checks their keys.

Metadata for which a format has no field is stored under the key `bert_keras`, which the readers of
that format ignore.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.errors import InputError

OURS_KEY = "bert_keras"
# Fields of a ModelCard that may be stored under OURS_KEY, and their JSON types.
FIELDS = {
    "lowercase": bool,
    "max_length": int,
    "text_columns": list,
    "labels": list,
    "problem_type": str,
    "task": dict,
}
# Fields that are lists of strings.
TEXTS = ("text_columns", "labels")


def checked(own: Any, path: Path, *, others: Collection[str]) -> dict[str, Any]:
    """Checks the value of OURS_KEY in a file, and returns it.

    Args:
        own: The value.
        path: The file, for the error message.
        others: Names that are allowed in addition to those in `FIELDS`.

    Raises:
        InputError: `own` is not a dict, has other names, or has a value of the wrong type.
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
    """Returns the fields of `card` that may be stored under OURS_KEY."""
    return {name: getattr(card, name) for name in FIELDS}


def training_fields(own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a ModelCard that only OURS_KEY can store.

    Fields that `own`, the value of that key, does not contain are empty.
    """
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
    """Checks the keys of a configuration file.

    Args:
        values: The contents of the file.
        path: The file, for error messages.
        required: Keys that the file must have.
        optional: Keys that the file may have.
        ignore: Other keys that the caller allows.
        reader: The program whose configuration the file is, for error messages.

    Raises:
        InputError: A required key is missing, or a key is neither known nor in `ignore`.
    """
    if missing := [name for name in required if name not in values]:
        raise InputError(f"{path} lacks {', '.join(missing)}; complete it")
    if unknown := [name for name in values if name not in (*required, *optional, *ignore)]:
        raise InputError(
            f"{path} has {', '.join(unknown)}, unknown to {reader}; where that changes nothing, "
            f"name it to leave it: ignore=({unknown[0]!r},), or --ignore {unknown[0]}"
        )


def config_of(values: Mapping[str, Any], path: Path | str) -> BertConfig:
    """Builds a BertConfig from `values`, which come from the file `path`.

    Raises:
        InputError: A value is impossible; the message names the file.
    """
    try:
        return BertConfig(**values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def write_json(path: Path, values: Mapping[str, Any], *, indent: int = 2) -> None:
    """Writes `values` as a JSON file in UTF-8."""
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
