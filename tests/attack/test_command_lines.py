"""Wrong command lines, made from the parsers: one sentence, exit code 2, nothing written."""

import argparse
import shlex

import pytest

from bert_keras.cli.program import command_parser
from tests.attack.test_interruption import is_refusal
from tfrecords_tools.cli import command_parser as writer_parser

pytestmark = pytest.mark.slow
# A right line of each command, so that each mistake is the only one.
RIGHT = {
    "bert-keras": {
        "demo": "--steps 300 --output new",
        "pretrain": "demo --records in/records --output new",
        "finetune": "classification --from in/bert-keras --train in/train.tsv --output new",
        "reproduce": "c2 --data in --output new",
        "evaluate": "in/classifier --data in/train.tsv --task classification",
        "predict": "in/classifier --data in/train.tsv --output new.tsv --task classification",
        "embed": "in/sentences --data in/lines.txt --output new.npy",
        "convert": "in/google new --format bert-keras",
        "inspect": "in/bert-keras text -o new.html",
        "export": "in/classifier name --output new",
        "serve": "in --port 8501",
        "list": "tasks",
    },
    "bert-tfrecords": {
        "vocab": "in/corpus.txt --output new",
        "build": "in/corpus.txt --vocab in/vocab.txt --output new",
        **dict.fromkeys(("check", "show"), "in/records"),
    },
}


def mistakes(parser: argparse.ArgumentParser, right: list[str]):
    """Yields wrong arguments of a command."""
    flags = [each for each in right if each.startswith("-")]
    if parser.prog not in ("bert-keras demo", "bert-keras list"):
        yield [], "no argument"
    yield [*right, "one", "more", "more"], "too many"
    yield from (([*right, name], "an unknown flag") for name in ("--unknown", "--set-x=1", "-q"))
    for flag in flags:
        at = right.index(flag)
        if parser._option_string_actions[flag].required:
            yield [*right[:at], *right[at + 2 :]], "no required option"
        yield right[: at + 1], "no value"
        yield [*right[:at], f"{flag}x", *right[at + 1 :]], "a misspelt flag"
        yield [*right[: at + 1], "", *right[at + 2 :]], "an empty value"
    for position, value in enumerate(right):
        if "in/" in value or value in ("in", "demo", "c2", "classification", "tasks"):
            yield [*right[:position], "none", *right[position + 1 :]], "a missing file or name"
    for action in parser._actions:
        flag = (action.option_strings or [""])[-1]
        if action.type in (int, float):
            yield from (([*right, flag, value], "no number") for value in ("many", "1e", ""))
        elif (
            action.metavar not in ("DIR", "FILE", "ZIP") and flag and action.type not in (None, str)
        ):
            yield [*right, flag, "nonee"], "an unknown name"
        if len(flag) > 4:
            yield [*right, flag[:-1] + "_", "1"], "a misspelt flag"


def lines():
    for program, parser in (("bert-keras", command_parser()), ("bert-tfrecords", writer_parser())):
        yield f"{program} dance", "an unknown command"
        for name, command in parser.commands.items():
            yield f"{program} {name}x", "a misspelt command"
            right = shlex.split(RIGHT[program][name])
            for arguments, mistake in mistakes(command, right):
                yield shlex.join([program, name, *arguments]), mistake


def test_wrong_lines(folders, tmp_path, attack):
    (tmp_path / "in").symlink_to(folders)
    wrong = dict(lines())
    for line, mistake in wrong.items():
        outcome = attack(line, tmp_path)
        assert is_refusal(outcome), (mistake, line, outcome)
        assert len(outcome.errors.splitlines()) == 1, (mistake, line, outcome)
        assert not outcome.has_tensorflow, (mistake, line)
        assert [*tmp_path.iterdir()] == [tmp_path / "in"], (mistake, line)
    print(f"command lines: {len(wrong)} are refused")
    assert len(wrong) > 200
