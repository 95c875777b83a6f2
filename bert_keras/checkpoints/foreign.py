"""Stores our metadata in the JSON files of other libraries' formats, and checks their keys.

Metadata for which a format has no field is stored under the key `bert_keras`, which the readers of
that format ignore.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.config import BertConfig
from bert_keras.errors import InputError

EXTRA_KEY = "bert_keras"
# Fields of `ModelMetadata` that may be stored under EXTRA_KEY, and their JSON types.
EXTRA_FIELDS = {
    "lowercase": bool,
    "max_length": int,
    "text_columns": list,
    "labels": list,
    "problem_type": str,
    "task": dict,
}
# Fields that are lists of strings.
TEXT_LISTS = ("text_columns", "labels")


def checked_extra(extra: Any, path: Path, *, others: Collection[str]) -> dict[str, Any]:
    """Checks the value of EXTRA_KEY in a file, and returns it.

    Args:
        extra: The value.
        path: The file, for the error message.
        others: Names that are allowed in addition to those in `EXTRA_FIELDS`.

    Raises:
        InputError: `extra` is not a dict, has other names, or has a value of the wrong type.
    """
    is_valid = (
        isinstance(extra, dict)
        and set(extra) <= {*EXTRA_FIELDS, *others}
        and all(type(extra.get(name, kind())) is kind for name, kind in EXTRA_FIELDS.items())
        and all(type(text) is str for name in TEXT_LISTS for text in extra.get(name, ()))
    )
    if not is_valid:
        raise InputError(f"{path}: bert-keras did not write this {EXTRA_KEY}; remove that key")
    return extra


def stored_fields(metadata: ModelMetadata) -> dict[str, Any]:
    """Returns the fields of `metadata` that may be stored under EXTRA_KEY."""
    return {name: getattr(metadata, name) for name in EXTRA_FIELDS}


def training_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `ModelMetadata` that only EXTRA_KEY can store.

    Fields that `extra`, the value of that key, does not contain are empty.
    """
    return {
        "text_columns": tuple(extra.get("text_columns", ())),
        "problem_type": extra.get("problem_type", ""),
        "task": extra.get("task", {}),
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
        raise InputError(f"{path} lacks {', '.join(missing)}; add what is missing")
    known = {*required, *optional}
    if unknown := [name for name in values if name not in known and name not in ignore]:
        raise InputError(
            f"{path} has {', '.join(unknown)}, which {reader} does not know; if that has no "
            f"effect, ignore it: {how_to_ignore(*ignore, *unknown)}"
        )


def how_to_ignore(*names: str) -> str:
    """Returns the end of an error message: the Python argument and the command."""
    options = "".join(f" --ignore {quote(name)}" for name in names)
    return f"ignore={names}, or bert-keras convert SRC DST{options}"


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
