"""Defines the exception for errors that a user can correct, and reports errors of a command."""

import contextlib
import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator


class InputError(ValueError):
    """An error that the user can correct.

    Its message is one sentence: what was received, what was expected and what to do.

    Example:

    ```python
    try:
        preset("huge")
    except InputError as error:
        print(error)
    ```
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


def counted(number: int, unit: str) -> str:
    """Return a number with its unit, which is plural unless the number is 1, as "1,024 steps"."""
    return f"{number:,} {unit}{'s' * (number != 1)}"


def listed(problems: list[str], *, most: int = 50) -> str:
    """Join the first `most` faults into one text that ends with the number of the other faults."""
    named = "; ".join(problems[:most])
    return named if len(problems) <= most else f"{named}; and {len(problems) - most:,} more"


@contextlib.contextmanager
def tensorflow_writes(path: str | os.PathLike) -> Iterator[None]:
    """Convert TensorFlow's errors while it writes to the path `path` to `OSError`s."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path)) from error
    except tf.errors.PermissionDeniedError as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path)) from error


# Characters that a terminal obeys instead of showing: control characters except line feed and tab,
# and marks of the writing direction; and halves of surrogate pairs, which have no UTF-8.
_NOT_PRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    r"""Return a text of a file as a terminal may print it: an escape character becomes "\x1b"."""
    return _NOT_PRINTABLE.sub(lambda match: ascii(match[0])[1:-1], str(text))


class _Termination(KeyboardInterrupt):
    """SIGTERM arrived."""


@contextlib.contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Raise `_Termination` in the `with` block for SIGTERM; only the main thread gets signals."""

    def end(*_) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the removal of files is not interrupted
        raise _Termination

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def _flushed_stdout() -> Iterator[None]:
    """Write all of stdout in the `with` block; a failure later would print a traceback."""
    try:
        yield
        print(end="", flush=True)
    except OSError:
        try:
            print(end="", flush=True)
        except OSError:  # drops the rest, which the interpreter would try to write at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def run_command(program: str, command: Callable[[], None]) -> int:
    """Run a command and report errors of the user or the system as one line on stderr.

    Any other exception is a bug in this project and keeps its traceback.

    Args:
        program: The name at the start of the error line.
        command: The function to run.

    Returns:
        The exit code: 0 for success; 2 for an `InputError`, an `OSError` (no such file, disk full,
        port in use) or a `MemoryError`; 130 for Ctrl-C; 143 for SIGTERM, which also raises
        KeyboardInterrupt in `command`, so that incomplete files are removed.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # its encoding may lack a character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _sigterm_interrupts(), _flushed_stdout():
            command()
    except InputError as error:
        print(printable(f"{program}: {error}"), file=sys.stderr)
        return 2
    except OSError as error:
        path = f"{error.filename}: " if error.filename else ""
        remedy = "; free disk space and run this again" if error.errno == errno.ENOSPC else ""
        print(printable(f"{program}: {path}{error.strerror or error}{remedy}"), file=sys.stderr)
        return 2
    except MemoryError:
        remedy = "use smaller sizes, such as batch_size, or a machine with more memory"
        print(f"{program}: not enough memory; {remedy}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"{program}: {'; '.join(('interrupted', *interrupt.args))}", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(interrupt, _Termination) else signal.SIGINT)
    return 0
