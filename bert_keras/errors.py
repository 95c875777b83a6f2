"""The exception for what a user can correct, and how a command line reports it."""

import errno
import sys
from collections.abc import Callable, Iterable


class InputError(ValueError):
    """One sentence: what was received, what was expected, what to do."""


def check_name(name: str, known: Iterable[str], *, what: str) -> None:
    """Raise InputError, which lists the known names, where `name` is none of them."""
    if name not in (known := tuple(known)):
        raise InputError(f"no {what} is called {name!r}; known: {', '.join(known)}")


def listed(faults: list[str], *, most: int = 50) -> str:
    """Join the first `most` of `faults`, and say how many others there are."""
    named = "; ".join(faults[:most])
    return named if len(faults) <= most else f"{named}; and {len(faults) - most:,} more"


def run_command(program: str, command: Callable[[], None]) -> int:
    """Run `command`; what a user or the system can cause becomes one line on stderr.

    Returns the exit code: 0, 2 for an `InputError` or `OSError` (no such file, disk full, port in
    use) or `MemoryError`, 130 for Ctrl-C. Anything else is our own fault and keeps its traceback.
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
