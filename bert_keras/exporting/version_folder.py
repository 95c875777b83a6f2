"""Names the version folders, saved_models/NAME/VERSION, and their metadata files.

The module does not import TensorFlow, so that a command refuses a wrong name immediately.
"""

import os
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.files import file_sha256, json_object

METADATA = "assets.extra/bert_keras.json"
WARMUP = "assets.extra/tf_serving_warmup_requests"
LARGEST_VERSION = 2**63 - 1  # TF Serving parses an int64 and ignores other folders


def check_model_name(name: str) -> None:
    """Raises InputError if `name` cannot be a folder name or part of a URL of the server."""
    if name in ("", ".", "..") or {"/", ":"} & {*name} or not name.isprintable():
        raise InputError(
            f"the model's name is {name!r}; expected a folder name of printable characters without "
            "'/' and ':', such as sst2 (--to sets the parent folder)"
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


def file_digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of the graph, the assets and the warm-up requests of a version by path.

    TensorFlow checks the variables itself, whose file has a checksum for each tensor.
    """
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    names = sorted(name for name in files if not name.startswith((".", "variables/", METADATA)))
    return {name: file_sha256(folder / name) for name in names}


def check_files(folder: Path) -> None:
    """Raises InputError if a file of a version is not the one that its metadata describes.

    A model with a vocabulary that was cut would be served with other predictions. The metadata of
    earlier versions has no digests.
    """
    metadata = folder / METADATA
    expected = json_object(metadata).get("files", {}) if metadata.is_file() else {}
    for name, digest in expected.items():
        if not (folder / name).is_file() or file_sha256(folder / name) != digest:
            raise InputError(f"{folder / name} is missing or damaged; export the model again")
