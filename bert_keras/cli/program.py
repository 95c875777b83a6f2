"""Parses the arguments of the command line `bert-keras` and runs one command."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence

from bert_keras.cli.experiments import Demo, Reproduce
from bert_keras.cli.models import Convert, Export, Inspect, Serve
from bert_keras.cli.tasks import Embed, Evaluate, Features, Predict, Submission
from bert_keras.cli.training import Curves, DeviceOptions, Finetune, Pretrain
from bert_keras.commands import Command, CommandParser, add_commands
from bert_keras.errors import import_tensorflow, run_command
from bert_keras.options import options_of

COMMANDS = (
    *(Demo, Pretrain, Finetune, Evaluate, Predict, Submission, Features, Embed, Inspect, Reproduce),
    *(Convert, Curves, Export, Serve),
)


def command_parser() -> argparse.ArgumentParser:
    """Build the argument parser of `bert-keras` with a subparser for each command."""
    parser = CommandParser(
        prog="bert-keras",
        description="Pretrain BERT on records, fine-tune it, export it and serve it.",
        epilog="bert-tfrecords writes the records. `bert-keras demo` runs every stage once.",
    )
    add_commands(parser, COMMANDS)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments without the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code, as from `bert_keras.errors.run_command`.
    """
    parser = command_parser()
    arguments = parser.parse_args(argv)
    command = options_of(arguments, arguments.command)

    def run_on_devices() -> None:
        is_server = isinstance(command, Serve)
        import_tensorflow()
        if not is_server and getattr(command, "strategy", None) != "tpu":
            from bert_keras.distribution.numerics import add_in_one_order

            add_in_one_order()
        try:
            with _devices(command):
                command.run()
        except KeyboardInterrupt as interrupt:
            if not interrupt.args and _is_continued(command):
                interrupt.args = ("the same command continues the run",)
            raise

    name = f"{parser.prog} {arguments.command.__name__.lower()}"
    return run_command(name, run_on_devices, debug=arguments.debug)


def _is_continued(command: Command) -> bool:
    """Whether the same command continues a run that was stopped."""
    is_beam_job = getattr(command, "beam", None) is not None
    return isinstance(command, (Embed, Finetune, Pretrain, Reproduce)) and not is_beam_job


@contextlib.contextmanager
def _devices(command: Command) -> Iterator[None]:
    """Set the dtype policy and enter the strategy scope for a command with device options."""
    if not isinstance(command, DeviceOptions):
        yield
        return
    import keras

    from bert_keras.distribution.numerics import named_policy
    from bert_keras.distribution.strategy import (
        check_one_machine,
        interrupted_by_lost_worker,
        named_strategy,
    )

    with interrupted_by_lost_worker():
        if command.is_study():
            check_one_machine()  # the strategy would wait for the other workers
        strategy = named_strategy(command.strategy)
        policy = named_policy(command.precision, hidden_size=command.hidden_size)
        keras.config.set_dtype_policy(policy)
        if command.precision == "auto" and policy != "float32":
            print(f"precision: {policy}; --precision float32 turns it off")
        if strategy.num_replicas_in_sync > 1:
            print(f"{strategy.num_replicas_in_sync} replicas: {type(strategy).__name__}")
        with strategy.scope():
            yield
