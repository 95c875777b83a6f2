"""What a clone without Git LFS has in the place of a large file."""

from pathlib import Path

from bert_keras.errors import InputError

BEGINNING = b"version https://git-lfs"


def refuse_pointer(path: Path) -> None:
    """Raises InputError where `path` is one; to ask where a file is not what it should be."""
    with path.open("rb") as file:
        if file.read(len(BEGINNING)) == BEGINNING:
            raise InputError(
                f"{path} is a Git LFS pointer, not the file itself: fetch it with git lfs pull"
            )
