"""The folder saved_models/NAME/VERSION: its name and its number.

Imports no TensorFlow, so that a wrong name is refused at once.
"""

import os
from pathlib import Path

from bert_keras.errors import InputError

LARGEST_VERSION = 2**63 - 1  # TF Serving reads an int64 and ignores other folders


def check_model_name(name: str) -> None:
    """Raises InputError for a name that is no folder's or cannot stand in a URL of the server."""
    if name in ("", ".", "..") or "/" in name or ":" in name:
        raise InputError(
            f"the model's name is {name!r}; expected a folder's name without '/' and ':', such as "
            "sst2 (the folder above it is named with --to)"
        )


def is_version(name: str) -> bool:
    """Whether a folder of this name holds a version."""
    return name.isascii() and name.isdigit() and int(name) <= LARGEST_VERSION


def next_version(folder: str | os.PathLike) -> int:
    """One more than the largest version in saved_models/NAME; 1 where there is none."""
    versions = [int(path.name) for path in Path(folder).glob("*") if is_version(path.name)]
    return max(versions, default=0) + 1
