"""Names the version folders, saved_models/NAME/VERSION, and their metadata files; no TensorFlow."""

import os
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.files import json_object

METADATA = "assets.extra/bert_keras.json"
WARMUP = "assets.extra/tf_serving_warmup_requests"
LARGEST_VERSION = 2**63 - 1  # TF Serving parses an int64 and ignores other folders


def check_model_name(name: str) -> None:
    """Raises InputError if `name` cannot be a folder name or part of a URL of the server."""
    if name in ("", ".", "..") or {"/", ":"} & {*name} or not name.isprintable():
        raise InputError(
            f"the model's name is {name!r}; expected a folder name of printable characters without "
            "'/' and ':', such as sst2 (--output sets the parent folder)"
        )


def is_version(name: str) -> bool:
    """Returns whether `name` is a version number: ASCII digits, at most LARGEST_VERSION."""
    return name.isascii() and name.isdigit() and int(name) <= LARGEST_VERSION


def next_version(folder: str | os.PathLike) -> int:
    """Returns the largest version number in `folder`, saved_models/NAME, plus 1; 1 without any."""
    versions = [int(path.name) for path in Path(folder).glob("*") if is_version(path.name)]
    return max(versions, default=0) + 1


def variant_of(folder: Path) -> str:
    """Returns the variant that a version folder contains, or "" if its metadata names none."""
    metadata = folder / METADATA
    variant = json_object(metadata).get("variant") if metadata.is_file() else None
    return variant["name"] if isinstance(variant, dict) else ""
