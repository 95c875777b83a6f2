"""Parses the command line `bert-keras` and runs one command.

A command is a function with the decorator `command`, whose arguments are those of argparse.
"""

import argparse
import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

from bert_keras.arguments import Parser, checked, one_of
from bert_keras.checkpoints.formats import detect_format
from bert_keras.checkpoints.hub import located
from bert_keras.distribution import PRECISIONS, STRATEGIES
from bert_keras.downstream.names import task_names
from bert_keras.errors import InputError, check, import_tensorflow, run_command, say
from bert_keras.files import check_exists, check_output

MODULES = [f"bert_keras.cli.{name}" for name in ("training", "tasks", "models", "listing")]
INPUTS = ("data", "train", "dev", "records", "blimp")  # options that name files or folders to read
# The arguments of `add_argument`, or the heading of the options that follow.
Argument = tuple[tuple[str, ...], dict[str, Any]] | str


class Command(NamedTuple):
    """A function that runs a command, and what its parser needs."""

    run: Callable[[argparse.Namespace], None]
    arguments: Sequence[Argument]
    examples: str


COMMANDS: dict[str, Command] = {}


def command(*arguments: Argument, examples: str) -> Callable[[Callable], Callable]:
    """Makes a function a command with the name of the function; its docstring is the help text."""

    def register(run: Callable) -> Callable:
        debug = flag("--debug", "print the traceback of an error")
        name = run.__name__.rstrip("_")
        COMMANDS[name] = Command(run, (*arguments, debug), examples)
        return run

    return register


def option(names: str, metavar: str, help: str, default: Any = None, **details: Any) -> Argument:
    """Returns an option or a positional argument.

    A value has the type of the default. An option with several values may be given several times.

    Args:
        names: The flags, such as "-o --output", or the name of a positional argument.
        metavar: The name of the value in the help text.
        help: The help text, to which the default is appended.
        default: The value if the option is not given.
        **details: Other arguments of `add_argument`.
    """
    if details.get("nargs") in ("*", "+") and names.startswith("-"):
        details.setdefault("action", "extend")
    if default not in (None, []):
        help += f" (default: {default})"
        details.setdefault("type", type(default))
    if isinstance(details.get("choices", (0,))[0], str):
        details["type"] = one_of(partial(tuple, details.pop("choices")), what=names.strip("-"))
    return tuple(names.split()), {"metavar": metavar, "help": help, "default": default, **details}


def count(text: str) -> int:
    """The type of an argument that is a whole number, at least 1."""
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, not {text!r}")


def required(names: str, metavar: str, help: str, **details: Any) -> Argument:
    """Returns an option that must be given; see `option`."""
    return option(names, metavar, help, required=True, **details)


def flag(name: str, help: str) -> Argument:
    """Returns an option without a value."""
    return (name,), {"action": "store_true", "help": help}


def values(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Returns the values of options as keyword arguments."""
    return {name: getattr(options, name) for name in names}


def command_parser() -> Parser:
    """Returns the parser of `bert-keras`; it stores the name of the command as `command`."""
    for name in MODULES:
        importlib.import_module(name)
    parser = Parser(
        prog="bert-keras",
        description="Pretrain BERT on records, fine-tune it, export it and serve it.",
        epilog="bert-tfrecords writes the records. `bert-keras demo` runs every stage once, and "
        "`bert-keras list tasks` lists what can be fine-tuned.",
    )
    parser.add_argument("--version", action="version", version=version("bert-keras"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    in_order = sorted(COMMANDS.items(), key=lambda item: MODULES.index(item[1].run.__module__))
    for name, (run, arguments, examples) in in_order:
        heading = "examples" if examples.count("  bert-keras ") > 1 else "example"
        sub = commands.add_parser(
            name,
            usage="%(prog)s [options]",
            help=run.__doc__,
            description=run.__doc__,
            epilog=f"{heading}:\n{examples.strip(chr(10))}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            conflict_handler="resolve",  # a command may have a --help of its own
        )
        for each in arguments:
            if isinstance(each, str):
                sub.add_heading(each)
            else:
                sub.add_argument(*each[0], **each[1])
    parser.commands = commands.choices
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The arguments without the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code, as from `bert_keras.errors.run_command`.
    """
    parser = command_parser()
    options = parser.parse_args(argv)
    flag_of = parser.commands[options.command].flag_of

    def run() -> None:
        for name in (*INPUTS, "output"):
            path = getattr(options, name, None)
            check(path != "", f"--{name} is empty; give a path")
            kind = "a folder of bert-tfrecords build" if name == "records" else "a file or a folder"
            if path and name in INPUTS and not path.startswith("tfds:"):
                check_exists(path, expected=kind)
        for name in {"model", "pretrained", "teacher"} & {*vars(options)}:
            path = getattr(options, name)
            check(path is None or path.strip(), f"the name of the {name} model is empty")
            is_task = path in task_names() and not os.path.exists(path)
            check(not is_task, f"{path!r} is a task; expected a model, and --task {path}")
        try:
            COMMANDS[options.command].run(options)
        except InputError as error:
            for name, value in vars(options).items():
                if str(error).startswith(f"{name} is {value};"):
                    error.args = (str(error).replace(name, flag_of[name], 1),)
            raise

    return run_command(f"bert-keras {options.command}", run, debug=options.debug)


def start_keras(
    options: argparse.Namespace, *, backends: Sequence[str] = ("tensorflow", "jax")
) -> None:
    """Finds the checkpoints of a command, then imports TensorFlow if it is Keras' backend."""
    for name in {"model", "pretrained", "teacher", "source"} & {*vars(options)}:
        if path := getattr(options, name):
            detect_format(located(path))
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    expected = f"set KERAS_BACKEND={' or '.join(backends)}"
    check(backend in backends, f"KERAS_BACKEND is {backend!r}; {expected}")
    if backend == "tensorflow":
        import_tensorflow(what="Keras without KERAS_BACKEND=jax")
        from bert_keras.distribution.numerics import add_in_one_order

        add_in_one_order()


PAGE = checked(partial(check_output, suffix=".html"))  # the type of an argument
MODEL = option("model", "MODEL", "OUTPUT/model of a run, or a checkpoint (bert-keras list models)")
STRATEGY = "auto for all GPUs, one, mirrored, multiworker or tpu"
DEVICES = (
    option("--strategy", "NAME", STRATEGY, "auto", choices=(*STRATEGIES,)),
    option("--precision", "NAME", ", ".join(PRECISIONS), "auto", choices=PRECISIONS),
)


@contextlib.contextmanager
def devices(
    options: argparse.Namespace, *, hidden_size: int = 0, trains_several: bool = False
) -> Iterator[None]:
    """Sets the dtype policy and enters the scope of the strategy that `DEVICES` name.

    Args:
        options: The options of the command.
        hidden_size: The hidden size of the model, 0 for several models.
        trains_several: Whether the command trains several models, which needs one machine.
    """
    import keras

    from bert_keras.distribution.numerics import named_policy
    from bert_keras.distribution.strategy import check_one_machine, num_devices, strategy_scope

    if trains_several:
        check_one_machine()  # the strategy would wait for the other workers
    scope = strategy_scope(options.strategy)
    policy = named_policy(options.precision, hidden_size=hidden_size)
    keras.config.set_dtype_policy(policy)
    if options.precision == "auto" and policy != "float32":
        say("precision", f"{policy}; --precision float32 turns it off")
    try:
        with scope:
            if num_devices() > 1:
                say("replicas", str(num_devices()))
            yield
    except KeyboardInterrupt as interrupt:
        interrupt.args = interrupt.args or ("the same command continues the run",)
        raise
