"""Checks and chooses the names of version folders, saved_models/NAME/VERSION.

The module does not import TensorFlow, so that a command refuses a wrong name immediately.
"""

import os
from pathlib import Path

from bert_keras.errors import InputError

LARGEST_VERSION = 2**63 - 1  # TF Serving parses an int64 and ignores other folders


def check_model_name(name: str) -> None:
    """Raises InputError if `name` cannot be a folder name or part of a URL of the server."""
    if name in ("", ".", "..") or "/" in name or ":" in name:
        raise InputError(
            f"the model's name is {name!r}; expected a folder name without '/' and ':', such as "
            "sst2 (--to sets the parent folder)"
        )


def is_version(name: str) -> bool:
    """Returns whether `name` is a version number: ASCII digits, at most LARGEST_VERSION."""
    return name.isascii() and name.isdigit() and int(name) <= LARGEST_VERSION


def next_version(folder: str | os.PathLike) -> int:
    """Returns the largest version number in `folder`, saved_models/NAME, plus 1; 1 without any."""
    versions = [int(path.name) for path in Path(folder).glob("*") if is_version(path.name)]
    return max(versions, default=0) + 1
