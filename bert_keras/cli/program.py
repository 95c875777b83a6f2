"""Parses the command line `bert-keras` and runs one command.

A command is a function with the decorator `command`, whose arguments are those of argparse.
"""

import argparse
import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NoReturn

from bert_keras.errors import InputError, check_name, import_tensorflow, printable, run_command

MODULES = ("training", "tasks", "models", "listing")  # of this package, with the commands


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the program."""

    run: Callable[[argparse.Namespace], None]
    arguments: Sequence[tuple[tuple[str, ...], dict[str, Any]]]  # of `add_argument`
    examples: str
    is_continued: bool  # whether the same command continues a stopped run
    needs_tensorflow: bool


COMMANDS: dict[str, Command] = {}  # by name, in the order of --help


def command(
    *arguments: tuple[tuple[str, ...], dict[str, Any]],
    examples: str,
    is_continued: bool = False,
    needs_tensorflow: bool = True,
) -> Callable[[Callable], Callable]:
    """Makes a function a command with the name of the function; its docstring is the help text."""

    def register(run: Callable) -> Callable:
        COMMANDS[run.__name__.rstrip("_")] = Command(
            run=run,
            arguments=[*arguments, flag("--debug", "print the traceback of an error")],
            examples=examples,
            is_continued=is_continued,
            needs_tensorflow=needs_tensorflow,
        )
        return run

    return register


def option(
    names: str, metavar: str, help: str, default: Any = None, **details: Any
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the arguments of `add_argument` for an option or a positional argument.

    A value is a text that is not empty, or has the type of the default. An option with several
    values may be given several times. The help text states the default.

    Args:
        names: The flags, such as "-o --output", or the name of a positional argument.
        metavar: The name of the value in the help text.
        help: The help text.
        default: The value if the option is not given.
        **details: Other arguments of `add_argument`.
    """
    if details.get("nargs") in ("*", "+") and names.startswith("-"):
        details.setdefault("action", "extend")
    details.setdefault("type", _text if default in (None, []) else type(default))
    if default not in (None, []):
        help += f" (default: {default})"
    return tuple(names.split()), {"metavar": metavar, "help": help, "default": default, **details}


def required(names: str, metavar: str, help: str, **details: Any) -> Any:
    """Returns an option that must be given; see `option`."""
    return option(names, metavar, help, required=True, **details)


def flag(name: str, help: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns an option without a value."""
    return (name,), {"action": "store_true", "help": help}


def one_of(names: Callable[[], Iterable[str]], *, what: str) -> Callable[[str], str]:
    """Returns the type of an argument that is one of the `names` at the time of the call."""

    def name(text: str) -> str:
        try:
            check_name(text, names(), what=what)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        return text

    return name


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("received an empty text; give a value")
    return text


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, as every other error is reported."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, printable(f"{self.prog}: {message}; see {self.prog} --help\n"))


def command_parser() -> argparse.ArgumentParser:
    """Returns the parser of `bert-keras`; it stores the name of the command as `command`."""
    for name in MODULES:
        importlib.import_module(f"bert_keras.cli.{name}")
    parser = _Parser(
        prog="bert-keras",
        description="Pretrain BERT on records, fine-tune it, export it and serve it.",
        epilog="bert-tfrecords writes the records. `bert-keras demo` runs every stage once, and "
        "`bert-keras list tasks` lists what can be fine-tuned.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version("bert-keras"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    modules = [f"bert_keras.cli.{name}" for name in MODULES]
    for name, each in sorted(
        COMMANDS.items(), key=lambda item: modules.index(item[1].run.__module__)
    ):
        sub = commands.add_parser(
            name,
            help=each.run.__doc__,
            description=each.run.__doc__,
            epilog=f"example:\n{each.examples.strip()}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for flags, details in each.arguments:
            sub.add_argument(*flags, **details)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The arguments without the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code, as from `bert_keras.errors.run_command`.
    """
    parser = command_parser()
    options = parser.parse_args(argv)
    chosen = COMMANDS[options.command]

    def run_chosen() -> None:
        if chosen.needs_tensorflow:
            import_tensorflow()
            if getattr(options, "strategy", "") != "tpu":
                from bert_keras.distribution.numerics import add_in_one_order

                add_in_one_order()
        try:
            chosen.run(options)
        except KeyboardInterrupt as interrupt:
            if chosen.is_continued and not interrupt.args:
                interrupt.args = ("the same command continues the run",)
            raise

    return run_command(f"{parser.prog} {options.command}", run_chosen, debug=options.debug)


DEVICES = (
    option("--strategy", "NAME", "auto, one, mirrored, multiworker or tpu", "auto"),
    option("--precision", "NAME", "auto, float32, bfloat16 or float16", "auto"),
)


@contextlib.contextmanager
def devices(
    options: argparse.Namespace,
    *,
    hidden_size: Callable[[], int] = lambda: 0,
    trains_several: bool = False,
) -> Iterator[None]:
    """Sets the dtype policy and enters the scope of the strategy that `DEVICES` name.

    Args:
        options: The options of the command.
        hidden_size: Returns the hidden size of the model, 0 for several models.
        trains_several: Whether the command trains several models, which needs one machine.
    """
    import keras

    from bert_keras.distribution.numerics import named_policy
    from bert_keras.distribution.strategy import (
        check_one_machine,
        interrupted_by_lost_worker,
        named_strategy,
    )

    with interrupted_by_lost_worker():
        if trains_several:
            check_one_machine()  # the strategy would wait for the other workers
        strategy = named_strategy(options.strategy)
        policy = named_policy(options.precision, hidden_size=hidden_size)
        keras.config.set_dtype_policy(policy)
        if options.precision == "auto" and policy != "float32":
            print(f"precision: {policy}; --precision float32 turns it off")
        if strategy.num_replicas_in_sync > 1:
            print(f"{strategy.num_replicas_in_sync} replicas: {type(strategy).__name__}")
        with strategy.scope():
            yield
