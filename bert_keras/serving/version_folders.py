"""Finds the version folders of a model in saved_models/NAME, as TF Serving does."""

import os
from collections.abc import Sequence
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.export.version_folder import is_version


def model_name(model_folder: str | os.PathLike) -> str:
    """The name under which a model is served: that of its folder."""
    return Path(model_folder).resolve().name


def latest_version(model_folder: str | os.PathLike) -> Path:
    """The version folder that TF Serving would load: the one with the largest number for a name.

    Raises InputError where there is no folder, no version in it, or no SavedModel in the version.
    """
    folder = Path(model_folder)
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder; expected saved_models/NAME with versions in it"
        )
    versions = version_folders(folder)
    if not versions:
        hint = "give its parent folder" if is_saved_model(folder) else "export a model first"
        raise InputError(
            f"{folder} holds no version folder (1, 2, ...), which TF Serving asks for; {hint}"
        )
    return _servable(versions[max(versions)])


def chosen_versions(
    model_folder: str | os.PathLike, numbers: Sequence[int] = ()
) -> dict[int, Path]:
    """The folders to serve at the start, by number: those of `numbers`, or the latest alone.

    Raises InputError where one is missing or holds no SavedModel.
    """
    latest = latest_version(model_folder)
    if not numbers:
        return {int(latest.name): latest}
    found = version_folders(model_folder)
    for number in numbers:
        if number not in found:
            raise InputError(
                f"{Path(model_folder)} holds no version {number}; it holds "
                f"{', '.join(map(str, sorted(found)))}"
            )
    return {number: _servable(found[number]) for number in numbers}


def version_folders(model_folder: str | os.PathLike) -> dict[int, Path]:
    """Every folder in `model_folder` whose name is a number."""
    return {
        int(child.name): child
        for child in sorted(Path(model_folder).iterdir())
        if is_version(child.name) and child.is_dir()
    }


def files_of(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Path, bytes and time of every file in `folder`; another set where a copy is still going on.

    A folder that goes meanwhile is empty.
    """
    found = set()
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            found.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(found)


def is_saved_model(folder: Path) -> bool:
    """Whether `folder` holds a SavedModel."""
    return any((folder / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))


def _servable(version: Path) -> Path:
    if not is_saved_model(version):
        raise InputError(
            f"{version} is not a SavedModel: it has no saved_model.pb; export it again"
        )
    return version
