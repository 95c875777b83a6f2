"""Finds the version folders of a model in saved_models/NAME, as TF Serving does."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.exporting.version_folder import is_version


def chosen_versions(
    model_folder: str | os.PathLike, numbers: Sequence[int] = ()
) -> dict[int, Path]:
    """Return the version folders to serve at the start.

    Args:
        model_folder: saved_models/NAME.
        numbers: Numbers of the versions to serve; if empty, only the latest is served.

    Returns:
        The folders by version number.

    Raises:
        InputError: If the folder does not exist or holds no version, if one of `numbers` is
            missing, or if a version holds no SavedModel.
    """
    folder = Path(model_folder)
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder; expected saved_models/NAME with version folders"
        )
    folders = version_folders(folder)
    if not folders:
        raise InputError(
            f"{folder} contains no version folder (1, 2, ...), which TF Serving requires; "
            f"{_remedy(folder)}"
        )
    chosen = select_versions(folders, numbers)
    for number in numbers:
        if number not in chosen:
            raise InputError(
                f"{folder} does not contain version {number}; it contains "
                f"{', '.join(map(str, sorted(folders)))}"
            )
    for version in chosen.values():
        if not _is_saved_model(version):
            raise InputError(
                f"{version} is not a SavedModel: it has no saved_model.pb; export it again"
            )
    return chosen


def _remedy(folder: Path) -> str:
    if not _is_saved_model(folder):
        return "give a folder saved_models/NAME, which bert-keras export writes"
    if is_version(folder.name):
        return "give its parent folder"
    return "move the SavedModel to saved_models/NAME/1 and give saved_models/NAME"


def select_versions(folders: dict[int, Path], numbers: Sequence[int]) -> dict[int, Path]:
    """Select the versions of `numbers` from `folders`, or the latest if `numbers` is empty.

    Args:
        folders: Version folders by number.
        numbers: Numbers to select; missing ones are skipped.
    """
    numbers = numbers or sorted(folders)[-1:]
    return {number: folders[number] for number in numbers if number in folders}


def version_folders(model_folder: str | os.PathLike) -> dict[int, Path]:
    """Return each folder in `model_folder` whose name is a version number, by number."""
    return {
        int(child.name): child
        for child in sorted(Path(model_folder).iterdir())
        if is_version(child.name) and child.is_dir()
    }


def file_states(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return the path, size in bytes and modification time in ns of every file in `folder`.

    Two calls return different sets while the folder is still being copied. A folder that no longer
    exists gives an empty set.
    """
    states = set()
    for parent, _, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in names):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                states.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(states)


def _is_saved_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))
