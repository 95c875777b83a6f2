"""Defines the commands of a program and parses their command lines."""

import abc
import argparse
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, ClassVar, NoReturn

from bert_keras.errors import InputError, printable
from bert_keras.options import add_options, flag_of


class Command(abc.ABC):
    """A command of a program, as a dataclass whose fields are the options of the command.

    The command line uses the class name in lower case as the name of the command, and the docstring
    of the class as its description.
    """

    examples: ClassVar[str]  # command lines for the help text

    @abc.abstractmethod
    def run(self) -> None:
        """Run the command with the options in the attributes."""

    def check_unused(self, *names: str, reason: str) -> None:
        """Check that options that have no effect have their default values.

        Args:
            names: Names of the fields of the options.
            reason: Why they have no effect, a clause that follows "has no effect".

        Raises:
            InputError: If an option has another value.
        """
        command: Any = self  # each subclass is a dataclass
        for each in fields(command):
            if each.name in names and (value := getattr(self, each.name)) != each.default:
                raise InputError(f"{flag_of(each)} {value} has no effect {reason}; leave it out")


class CommandParser(argparse.ArgumentParser):
    """Reports a mistake on the command line in one line, as every other error is reported."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, printable(f"{self.prog}: {message}; see {self.prog} --help\n"))


def add_commands(
    parser: argparse.ArgumentParser, commands: Iterable[type[Command]], *, metavar: str = "COMMAND"
) -> None:
    """Add a subparser for each command.

    Args:
        parser: Parser of the program. Its parsed arguments hold the chosen class as `command`.
        commands: The command classes.
        metavar: Name of the command argument in the help text.
    """
    added = parser.add_subparsers(required=True, metavar=metavar)
    for command in commands:
        sub = added.add_parser(
            command.__name__.lower(),
            help=command.__doc__,
            description=command.__doc__,
            epilog=f"example:\n  {command.examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(sub, command)
        sub.add_argument("--debug", action="store_true", help="print the traceback of an error")
        sub.set_defaults(command=command)
