"""Declares the commands of a program and runs them; every error is one line on stderr."""

import argparse
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import takewhile
from typing import Any, NoReturn

from bert_keras.errors import InputError, check_name, printable, suggest_name

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # EFBIG: the file is too large, as on FAT
# The arguments of `Parser.add_argument`, or the heading of the options that follow.
Argument = tuple[tuple[str, ...], dict[str, Any]] | str
Run = Callable[[argparse.Namespace], None]


def option(names: str, metavar: str, help: str, default: Any = None, **details: Any) -> Argument:
    """Returns an option or a positional argument.

    Args:
        names: Its names, such as "-o --output" or "model".
        metavar: How the usage names its value. A DIR or FILE must not be empty.
        help: The help text, to which the default is appended.
        default: The default, which also gives the type of values. None or [] is not shown.
        **details: Other arguments of `Parser.add_argument`. An option with several values may be
            given several times.
    """
    if details.get("nargs") == "*" or (details.get("nargs") == "+" and names.startswith("-")):
        details.setdefault("action", "extend")
    if metavar in ("DIR", "FILE"):
        details.setdefault("type", checked(str))  # refuses empty strings
    if default not in (None, []):
        help += f" (default: {default})"
        details.setdefault("type", type(default))
    choices = details.get("choices", ())
    if choices and isinstance(choices[0], str):
        del details["choices"]
        details["type"] = one_of(lambda: choices, what=names.strip("-"))
    return tuple(names.split()), {"metavar": metavar, "help": help, "default": default, **details}


def required(names: str, metavar: str, help: str, **details: Any) -> Argument:
    """Returns an option that must be given; see `option`."""
    return option(names, metavar, help, required=True, **details)


def flag(name: str, help: str) -> Argument:
    """Returns an option without a value."""
    return (name,), {"action": "store_true", "help": help}


def count(text: str) -> int:
    """Converts an argument to a whole number of at least 1."""
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, not {text!r}")


def checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """Returns the type of an argument that `check` may refuse with an InputError."""

    def value(text: str) -> str:
        if not text.strip():
            raise argparse.ArgumentTypeError("expected a name, got an empty string")
        try:
            check(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        return text

    return value


def one_of(names: Callable[[], Iterable[str]], *, what: str) -> Callable[[str], str]:
    """Returns the type of an argument that is one of the `names` at the time of the call."""
    return checked(lambda text: check_name(text, names(), what=what))


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, which suggests the closest name."""

    def __init__(self, **details: Any):
        self.commands: Mapping[str, Parser] = {}
        self._flags, self._metavars = [], []
        self.group: Any = None  # of the options that follow
        self._last = []  # flags that take all remaining arguments
        super().__init__(**details, allow_abbrev=False)

    def add_argument(self, *names: Any, is_optional: bool = False, **details: Any) -> Any:
        """Adds an argument as argparse does; a positional one may be optional."""
        add = self.group.add_argument if self.group else super().add_argument
        action = add(*names, **details)
        if is_optional:  # unlike with nargs="*", the values may follow other options
            action.required = False
        if action.option_strings:
            self._flags += names
            self._last += names if action.nargs == argparse.REMAINDER else ()
        else:
            self._metavars.append(str(action.metavar))
        if action.required or not action.option_strings:
            words = [*action.option_strings[-1:], str(action.metavar)]
            self.usage = " ".join([self.usage or "%(prog)s [options]", *words])
        return action

    def error(self, message: str) -> NoReturn:
        if "required: " in message:  # adds the first example
            example = str(self.epilog).replace("\\\n", "").split("\n")[1:2]
            message += "".join(f"; example: {' '.join(each.split())}" for each in example)
        message = f"{self.prog}: {message}; see {self.prog} --help".replace("?;", "?")
        self.exit(2, printable(f"{message}\n"))

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """Parses the arguments; an unknown command or flag ends the program with exit code 2."""
        args = list(sys.argv[1:] if args is None else args)
        if self.commands and not args:
            args = ["--help"]
        if self.commands and not args[0].startswith("-"):
            try:
                check_name(args[0], self.commands, what="command")
            except InputError as error:
                self.error(str(error))
        mine = takewhile(lambda each: each not in self.commands and each not in self._last, args)
        for name in (each.partition("=")[0] for each in mine):
            if name.startswith("--") and name.strip("-") and name not in self._flags:
                hint = suggest_name(name, [*self._flags, *self._metavars])
                self.error(f"no argument is called {name}{hint}")
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            is_setting = "=" in rest[0] and "--set" in self._flags
            hint = f"; a setting is --set {rest[0]}" if is_setting else ""
            self.error(f"{rest[0]!r} is one argument too many{hint}")
        return options, rest


class Program:
    """A program with commands, which are functions with the decorator `command`."""

    def __init__(self, name: str, **details: Any):
        """Creates a program; `details` are other arguments of its parser."""
        self.name, self.details = name, details
        self.commands: dict[str, tuple[Run, Sequence[Argument], str]] = {}

    def command(self, *arguments: Argument, examples: str) -> Callable[[Run], Run]:
        """Registers a function as a command with its name; its docstring is the help text."""

        def register(run: Run) -> Run:
            debug = flag("--debug", "print the traceback of an error")
            self.commands[run.__name__.rstrip("_")] = run, (*arguments, debug), examples
            return run

        return register

    def parser(self) -> Parser:
        """Returns the parser, which stores the name of the command as `command`."""
        formatter = argparse.RawDescriptionHelpFormatter
        parser = Parser(prog=self.name, formatter_class=formatter, **self.details)
        parser.add_argument("--version", action="version", version=version("bert-keras"))
        commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
        for name, (run, arguments, examples) in self.commands.items():
            sub = commands.add_parser(
                name,
                usage="%(prog)s [options]",
                help=run.__doc__,
                description=run.__doc__,
                epilog="examples:\n" + examples.strip("\n"),
                formatter_class=formatter,
                conflict_handler="resolve",  # a command may have a --help of its own
            )
            for each in arguments:
                if isinstance(each, str):
                    sub.group = sub.add_argument_group(each)
                else:
                    sub.add_argument(*each[0], **each[1])
        parser.commands = commands.choices
        return parser

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Runs the command of `argv`, or of `sys.argv`; returns the exit code of `run_command`."""
        options = self.parser().parse_args(argv)
        program, (run, *_) = f"{self.name} {options.command}", self.commands[options.command]
        return run_command(program, lambda: run(options), debug=options.debug)


def run_command(program: str, command: Callable[[], None], *, debug: bool = False) -> int:
    """Runs a command and reports any exception as one line on stderr that starts with `program`.

    With `debug` the exception is raised. Returns the exit code: 0 for success, 2 for an exception,
    130 for Ctrl-C, 141 if the reader of stdout has ended, and 143 for SIGTERM, which also raises
    KeyboardInterrupt in `command`, so that incomplete files are removed.
    """
    if sys.stderr is not None and not sys.stderr.isatty():
        os.environ.setdefault("TQDM_MININTERVAL", "10")  # seconds between lines of a log
    received = []

    def interrupt(signal_number, _) -> None:
        signal.signal(signal_number, signal.SIG_IGN)  # does not interrupt the removal of files
        received.append(signal_number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # only this thread gets signals
    previous = signal.signal(signal.SIGTERM, interrupt) if is_main else None
    if isinstance(sys.stdout, io.TextIOWrapper):  # its encoding may lack a character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        command()
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        print(f"{program}: {'; '.join(('interrupted', *error.args))}", file=sys.stderr)
        return 128 + (received[0] if received else signal.SIGINT)
    except Exception as error:
        if debug:
            raise
        return _report(program, error)
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, previous)
    return 0


def _report(program: str, error: Exception) -> int:
    """Prints an exception as one line and returns the exit code."""
    text = " ".join(printable(error).split())
    if not isinstance(error, InputError):
        is_full = any(os.strerror(each) in text for each in _FULL)
        if isinstance(error, OSError) and error.strerror:
            text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        elif is_full:  # an exception of C++ or Rust code
            text = text[:500]
        elif isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
            text = f"not enough memory; use smaller sizes, such as batch_size ({text[:200]})"
        else:
            text = f"{type(error).__name__}: {text[:500]}; --debug shows where"
        text += "; free disk space and run this again" if is_full else ""
    is_closed = isinstance(error, BrokenPipeError)  # such as by `| head`, which has read enough
    if not is_closed:
        print(f"{program}: {text}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # closed or full; drops the output that the interpreter would write at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE if is_closed else 2
