"""Command-line options and FIELD=VALUE settings are derived from dataclass fields."""

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from bert_keras.commands import Command, add_commands
from bert_keras.errors import InputError
from bert_keras.options import add_options, argument, fixed, group, option, options_of, with_changes


@dataclass(frozen=True, kw_only=True)
class Settings:
    name: str = fixed("mine")
    max_length: int = option(128, metavar="N", help="positions a record")
    rates: tuple[float, ...] = (0.1,)
    is_cased: bool = False
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    files: tuple[str, ...] = argument("FILE", nargs="+")
    output: str = option(flags=["-o", "--output"])
    data: str | None = option(None, either="source")
    server: str | None = option(None, either="source", default_text="none")
    labels: tuple[str, ...] = option((), flags=["--label"], action="append")
    dry_run: bool = option(False)
    settings: Mapping = group(Settings, only=("max_length", "rates"))


class Go(Options, Command):
    """Run the program."""

    examples = "program go a -o b"

    def run(self):
        pass


def parsed(*words: str):
    parser = argparse.ArgumentParser()
    add_options(parser, Options)
    return options_of(parser.parse_args(words), Options)


def test_fields_become_options():
    options = parsed("a", "b", "-o", "out", "--data", "x", "--label", "one", "--label", "two")
    assert options == Options(files=("a", "b"), output="out", data="x", labels=("one", "two"))
    options = parsed(
        "a", "-o", "b", "--server", "x", "--dry-run", "--max-length", "9", "--rates", "1", "2"
    )
    assert options.dry_run and options.settings == {"max_length": 9, "rates": (1.0, 2.0)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-o out --data x", "the following arguments are required: FILE"),
        ("a --data x", "the following arguments are required: -o/--output"),
        ("a -o out", "one of the arguments --data --server is required"),
        ("a -o out --data x --server x", "--server: not allowed with argument --data"),
        ("a -o out --data x --max-length x", "--max-length: invalid int value: 'x'"),
        ("a -o out --data x --seed 1", "unrecognized arguments: --seed 1"),
        ("a -o '' --data x", "argument -o/--output: received an empty text; give a value"),
        ("'' -o out --data x", "argument FILE: received an empty text; give a value"),
        (f"a -o out --data x --max-length {2**63}", f"{2**63} is too large; expected at most"),
    ],
)
def test_invalid_command_lines_are_refused(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        parsed(*shlex.split(words))
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_the_help_shows_defaults_and_an_example(capsys):
    parser = argparse.ArgumentParser(prog="program")
    add_commands(parser, [Go])
    with pytest.raises(SystemExit):
        parser.parse_args(["go", "--help"])
    text = capsys.readouterr().out
    assert "--max-length N        positions a record (default: 128)" in text
    assert "(default: none)" in text and "program go a -o b" in text and "--name" not in text
    arguments = parser.parse_args(["go", "a", "-o", "b", "--data", "c"])
    assert options_of(arguments, Go) == Go(files=("a",), output="b", data="c")


def test_settings_are_changed():
    changes = ["max_length=9", "rates=1,2", "is_cased=true", "seed=3"]
    (changed, none) = with_changes(Settings(), None, changes=changes)
    assert changed == Settings(max_length=9, rates=(1.0, 2.0), is_cased=True, seed=3)
    assert none is None
    values = {"max_length": 9, "rates": [1, 2.0], "is_cased": True, "seed": "3"}
    assert with_changes(Settings(), changes=values) == (changed,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "depth=3",
            "'depth=3' is not a setting; expected FIELD=VALUE, where FIELD is ",
        ),
        ("max_length", "'max_length' is not a setting"),
        ("name=other", "'name=other' is not a setting"),
        ("max_length=x", "'max_length=x': expected int"),
        ("rates=1,x", "'rates=1,x': expected float"),
        ("is_cased=yes", "'is_cased=yes': expected one of true, false"),
    ],
)
def test_invalid_changes_are_refused(change, message):
    with pytest.raises(InputError, match=f"^{message}"):
        with_changes(Settings(), changes=[change])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 3}, "'depth=3' is not a setting"),
        ({"max_length": 9.5}, "max_length is 9.5; expected int"),
        ({"max_length": True}, "max_length is True; expected int"),
        ({"is_cased": 1}, "is_cased is 1; expected bool"),
        ({"rates": [None]}, r"rates is \[None\]; expected float"),
    ],
)
def test_values_of_another_type_are_refused(changes, message):
    with pytest.raises(InputError, match=f"^{message}"):
        with_changes(Settings(), changes=changes)
