"""Each file of a folder is damaged; the command that reads it gives the same result or refuses."""

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.attack.test_interruption import COMMANDS, contents, is_refusal

pytestmark = pytest.mark.slow
BUILD, SETTINGS = COMMANDS["build"].line, "tokenizer_config.json"


def damages(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yields the names of damages and the damaged bytes; None for a removed file."""
    yield from (("cut", data[: len(data) // 2]), ("emptied", b""), ("removed", None))
    for share in (0.5, 0.9):
        at = int(share * (len(data) - 1))
        yield f"flipped at {share}", data[:at] + bytes([data[at] ^ 1 << at % 7]) + data[at + 1 :]


@dataclass(frozen=True)
class Reader:
    """A folder and the command that reads it, which writes `new` or prints its result.

    A flipped bit of the files that match `unchecked` may give another result, because their format
    has no checksum: weights in safetensors and HDF5, tokens in vocab.txt, and names in JSON.
    """

    folder: str
    line: str = "bert-keras convert FOLDER new"
    unchecked: tuple[str, ...] = ()
    optional: str = ""  # a file whose absence has a meaning in the format


READERS = (
    Reader("records", "bert-tfrecords check FOLDER"),
    Reader("new.partial", BUILD),
    Reader("bert-keras", unchecked=("weights.safetensors", "*.txt", "*.json")),
    Reader("google", unchecked=("vocab.txt",)),
    # Without tokenizer_config.json, a model takes texts as long as its positions allow.
    Reader("huggingface", unchecked=("*.safetensors", "config.json"), optional=SETTINGS),
    Reader("sentence-transformers", unchecked=("model.safetensors",)),
    Reader("keras-hub", unchecked=("*.h5", "vocabulary.txt")),
    Reader("name", "tests.attack.forking FOLDER"),
)
# What a command says without vocab.txt, manifest.json or KerasHub's task.*: such folders are valid.
STATED = ("no vocabulary", "no manifest", "new: BertEncoder")


@pytest.fixture(scope="module")
def damaged(folders, attack, attack_keras):
    """Adds an interrupted build and an exported model to the folders."""
    (folders / "in").symlink_to(".")
    assert attack(BUILD, folders, change=80, is_killed=True).code == -signal.SIGKILL
    line = "bert-keras export classifier name --output . --serving-config config"
    assert attack_keras(line, folders).code == 0
    assert (folders / "config" / "compose.yaml").is_file()
    return folders


def outcome_of(attack, line: str, folder: Path) -> tuple[str, object, str]:
    """Runs a command; returns "ran", "refused" or "traceback", its result, and what it printed."""
    outcome = attack(line, folder)
    result = contents(folder / "new") or outcome.output
    shutil.rmtree(folder / "new", ignore_errors=True)
    kind = "ran" if outcome.code == 0 else "refused" if is_refusal(outcome) else "traceback"
    return kind, result, outcome.output + outcome.errors


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.folder)
def test_folder(reader, damaged, tmp_path, attack, attack_keras):
    attack = attack if reader.line.startswith("bert-tfrecords") else attack_keras
    source, folder = damaged / reader.folder, tmp_path / reader.folder
    (tmp_path / "in").symlink_to(damaged)
    line, results, failures = reader.line.replace("FOLDER", reader.folder), Counter(), []
    shutil.copytree(source, folder)
    kind, expected, printed = outcome_of(attack, line, tmp_path)
    assert kind == "ran", printed
    for path in sorted(each for each in source.rglob("*") if each.is_file()):
        for damage, changed in damages(path.read_bytes()) if path.stat().st_size else ():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            file = folder / path.relative_to(source)
            file.unlink() if changed is None else file.write_bytes(changed)
            kind, result, printed = outcome_of(attack, line, tmp_path)
            if kind == "ran":
                is_flipped = "flipped" in damage and any(map(path.match, reader.unchecked))
                is_optional = (damage, path.name) == ("removed", reader.optional)
                kind = "undetectable" if is_flipped or is_optional else "wrong"
                kind = "stated" if any(each in printed for each in STATED) else kind
                kind = "same" if result == expected else kind
            results[kind] += 1
            if kind in ("wrong", "traceback"):
                failures.append((str(path.relative_to(source)), damage, kind, printed[-300:]))
    print(f"{reader.folder}: {dict(results)}")
    assert not failures
