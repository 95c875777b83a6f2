"""Each file of a folder is damaged; the command that reads it gives the same result or refuses."""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.attack.test_interruption import contents, is_refusal

pytestmark = pytest.mark.slow


def flipped(data: bytes, place: float) -> bytes:
    """Returns the bytes with one bit changed, at a share of their length."""
    at = int(place * (len(data) - 1))
    return data[:at] + bytes([data[at] ^ 1 << at % 7]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "removed": lambda data: None,
    **{f"flipped at {at}": lambda data, at=at: flipped(data, at) for at in (0.1, 0.5, 0.9)},
}


@dataclass(frozen=True)
class Reader:
    """A folder and the command that reads it; the command writes `new` or prints its result.

    A flipped bit of the files that match `unchecked` may give another result.
    """

    folder: str
    line: str
    unchecked: tuple[str, ...] = ()


READERS = (
    Reader("records", "bert-tfrecords check FOLDER"),
    *(Reader(n, "bert-keras convert FOLDER new") for n in ("bert-keras", "google", "huggingface", "sentence-transformers", "keras-hub")),
)


def outcome_of(attack, line: str, folder: Path) -> tuple[str, object]:
    """Runs a command; returns "ran", "refused" or "traceback" and its result."""
    outcome = attack(line, folder)
    result = contents(folder / "new") or outcome.output
    shutil.rmtree(folder / "new", ignore_errors=True)
    if outcome.code == 0:
        return "ran", result
    return "refused" if is_refusal(outcome) else "traceback", outcome


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.folder)
def test_folder(reader, folders, tmp_path, attack, attack_keras):
    attack = attack if reader.line.startswith("bert-tfrecords") else attack_keras
    folder, results, failures = tmp_path / reader.folder, Counter(), []
    line = reader.line.replace("FOLDER", reader.folder)
    shutil.copytree(folders / reader.folder, folder)
    kind, expected = outcome_of(attack, line, tmp_path)
    assert kind == "ran", expected
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        whole = path.read_bytes()
        for damage, change in DAMAGES.items():
            damaged = change(whole)
            path.unlink() if damaged is None else path.write_bytes(damaged)
            kind, result = outcome_of(attack, line, tmp_path)
            path.write_bytes(whole)
            if kind == "ran":
                kind = "same" if result == expected else "wrong"
            print(path.relative_to(folder), damage, kind, result.errors if kind=="traceback" else result.errors[:300] if kind=="refused" else "", flush=True)
            results[kind] += 1
    print(f"{reader.folder}: {dict(results)}")
