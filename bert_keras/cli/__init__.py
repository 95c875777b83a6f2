"""The command line `bert-keras`."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The arguments without the program's name; None takes them from `sys.argv`.

    Returns:
        The exit code, as from `bert_keras.errors.run_command`.
    """
    from bert_keras.cli.program import run

    return run(argv)
