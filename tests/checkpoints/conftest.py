"""Helpers of the tests of checkpoint formats."""

import json
from pathlib import Path

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint


def change_json(path: Path, **values) -> None:
    """Replaces values of a JSON file, which need not exist; None removes a key."""
    changed = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    changed = {name: value for name, value in (changed | values).items() if value is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(changed), "utf-8")


def assert_same_files(one: Path, other: Path) -> None:
    """Checks that two folders have the same files, byte for byte."""
    files = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    assert files == {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
    for name in files:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def assert_round_trip(original, folder: Path, *, format: str) -> tuple[str, ...]:
    """Checks native -> `format` -> native to the byte, and returns the notes of writing it."""
    write_checkpoint(original, folder / "ours", format="bert-keras")
    notes = write_checkpoint(open_checkpoint(folder / "ours"), folder / "theirs", format=format)
    write_checkpoint(open_checkpoint(folder / "theirs"), folder / "back", format="bert-keras")
    assert_same_files(folder / "ours", folder / "back")
    return notes
