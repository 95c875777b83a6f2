"""Defines the exception for errors that a user can correct, and reports errors of a command."""

import errno
import sys
from collections.abc import Callable, Iterable


class InputError(ValueError):
    """An error that the user can correct.

    Its message is one sentence: what was received, what was expected and what to do.
    """


def check_name(name: str, known: Iterable[str], *, what: str) -> None:
    """Check that a name is known.

    Args:
        name: The name to check.
        known: All valid names.
        what: The kind of name in the error message, such as "recipe".

    Raises:
        InputError: If `name` is not in `known`; the message lists `known`.
    """
    if name not in (known := tuple(known)):
        raise InputError(f"no {what} is called {name!r}; known: {', '.join(known)}")


def listed(faults: list[str], *, most: int = 50) -> str:
    """Join the first `most` faults into one text that ends with the number of the other faults."""
    named = "; ".join(faults[:most])
    return named if len(faults) <= most else f"{named}; and {len(faults) - most:,} more"


def run_command(program: str, command: Callable[[], None]) -> int:
    """Run a command and report errors of the user or the system as one line on stderr.

    Any other exception is a bug in this project and keeps its traceback.

    Args:
        program: The name at the start of the error line.
        command: The function to run.

    Returns:
        The exit code: 0 for success; 2 for an `InputError`, an `OSError` (no such file, disk full,
        port in use) or a `MemoryError`; 130 for Ctrl-C.
    """
    try:
        command()
    except InputError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        remedy = "; free some and run the same again" if error.errno == errno.ENOSPC else ""
        print(f"{program}: {place}{error.strerror or error}{remedy}", file=sys.stderr)
        return 2
    except MemoryError:
        print(f"{program}: there is not enough memory for this; give it more", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"{program}: {'; '.join(('interrupted', *interrupt.args))}", file=sys.stderr)
        return 130
    return 0
