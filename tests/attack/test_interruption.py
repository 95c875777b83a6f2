"""A command that is killed, or whose disk is full, at a change of a file spoils nothing.

Repeated, it writes the bytes of an undisturbed run; in between its output is whole or absent.
"""

import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.attack.forking import Outcome

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Command:
    """A command that writes `output`; the files of `folders` are in `in`."""

    line: str
    output: str = "new"
    num_changes: int = 40  # at which it is killed, and as many at which its disk is full
    keeps: str = ""  # the folder in which the next run continues


BUILD = (
    "bert-tfrecords build in/corpus.txt --vocab in/vocab.txt --output new --max-length 12 "
    "--shards 2 --duplicates 2 --workers 1"
)
COMMANDS = {
    "vocab": Command("bert-tfrecords vocab in/corpus.txt --output new --size 200 --workers 1"),
    "build": Command(f"{BUILD} --held-out 0.2", keeps="new.partial"),
    "build google": Command(f"{BUILD} --compat google", num_changes=20, keeps="new.partial"),
    "embed": Command(
        *("bert-keras embed in/sentences --data in/lines.txt --output new.npy", "new.npy"),
        keeps="new.npy.partial",
    ),
    "convert": Command("bert-keras convert in/google new"),
    "convert to huggingface": Command("bert-keras convert in/bert-keras new --format huggingface"),
    "convert to google": Command("bert-keras convert in/bert-keras new --format google"),
    "predict": Command(
        "bert-keras predict in/classifier --task classification --data in/train.tsv "
        "--output new.tsv --set max_length=12",
        "new.tsv",
    ),
    "finetune": Command(
        "bert-keras finetune classification --from in/bert-keras --train in/train.tsv --dev "
        "in/train.tsv --output new --recipe demo --epochs 2 --max-length 12",
        *("new/model", 3, "new"),
    ),
    "pretrain": Command(
        "bert-keras pretrain demo --records in/records --output new --batch-size 4 --steps 20 "
        "--set num_warmup_steps=2 size=L-1_H-16_A-2 steps_per_log=5 logs_per_checkpoint=1",
        *("new/model", 3, "new"),
    ),
    "export": Command("bert-keras export in/classifier name --output new", "new/name/1", 3),
}

# Files of a SavedModel, which differ between two exports: TensorFlow numbers its functions anew.
GRAPHS = ("saved_model.pb", "fingerprint.pb", "assets.extra/bert_keras.json")


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the files of a folder, or one file, by their path; without the bytes of `GRAPHS`."""
    paths = [each for each in (folder, *folder.rglob("*")) if each.is_file()]
    names = {str(each.relative_to(folder)): each for each in paths}
    return {name: b"" if name in GRAPHS else each.read_bytes() for name, each in names.items()}


def is_refusal(outcome: Outcome) -> bool:
    """Returns whether a command ended with one sentence."""
    last = (outcome.errors.replace("\r", "\n").splitlines() or [""])[-1]
    has_trace = "Traceback" in outcome.errors or "--debug shows" in last
    return outcome.code == 2 and last.startswith("bert-") and not has_trace


@pytest.mark.parametrize("name", COMMANDS)
def test_command(name, folders, tmp_path, attack, attack_keras):
    command, results = COMMANDS[name], Counter()
    attack = attack if command.line.startswith("bert-tfrecords") else attack_keras

    def new_folder(number: int | str) -> Path:
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "in").symlink_to(folders)
        return tmp_path / str(number)

    def finish(folder: Path) -> None:
        outcome = attack(command.line, folder)
        is_taken = "exists already" in outcome.errors and is_refusal(outcome)
        assert outcome.code == 0 or is_taken, outcome
        assert contents(folder / command.output) == expected

    folder = new_folder("undisturbed")
    undisturbed = attack(command.line, folder)
    assert undisturbed.code == 0, undisturbed.errors
    expected = contents(folder / command.output)
    sizes = sorted({1, *(len(each) // 2 for each in expected.values())})
    step = -(-undisturbed.num_changes // command.num_changes)
    faults = [{"change": each} for each in range(undisturbed.num_changes, 0, -step)]
    sizes = sizes[:: -max(1, len(sizes) // 3)][: command.num_changes - 1]
    faults += [{"max_bytes": each} for each in sizes]
    for is_killed in (False, True):
        folder = new_folder(is_killed)
        for fault in faults:
            if command.keeps:
                folder = new_folder(f"{is_killed} {len(results)} {fault}")
            outcome = attack(command.line, folder, **fault, is_killed=is_killed)
            found = contents(folder / command.output)
            assert found in ({}, expected), (fault, "half-written")
            kind = "finished" if outcome.code == 0 else "killed" if is_killed else "refused"
            if is_killed and kind != "finished":
                assert outcome.code in (-signal.SIGKILL, -signal.SIGXFSZ), (fault, outcome)
            elif kind == "refused":
                assert is_refusal(outcome) and "free disk space" in outcome.errors, (fault, outcome)
                left = {each.split("/")[0] for each in contents(folder)} - {"in"}
                assert found or left <= {command.keeps}, fault
            results[kind] += 1
            if command.keeps:
                finish(folder)
            elif found:
                folder = new_folder(f"{is_killed} {fault}")
        if not command.keeps:
            finish(folder)
    print(f"{name}: {undisturbed.num_changes} changes; {dict(results)}")
