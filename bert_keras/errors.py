"""Defines the exception for errors that a user can correct, checks of settings, and commands."""

import contextlib
import errno
import functools
import importlib
import importlib.util
import inspect
import io
import logging
import math
import numbers
import os
import re
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, TextIO, TypeVar

from bert_keras.renamed import short_warnings

Function = TypeVar("Function", bound=Callable)
LARGEST_COUNT = 2**31 - 1  # of the 32-bit integers that NumPy, TensorFlow and tokenizers use
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the last one: of a file, as on FAT
LARGEST_SIZE = 2**20  # of a layer, a batch or a vocabulary; none in use is larger


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


def check(is_valid: object, message: str) -> None:
    """Raises InputError with `message` unless `is_valid`."""
    if not is_valid:
        raise InputError(message)


# Names of transformers and other programs that are not near those of this package -> ours
_THEIRS = {
    **dict.fromkeys(("train", "fit"), "finetune or pretrain"),
    **dict.fromkeys(("test", "score"), "evaluate"),
    **dict.fromkeys(("infer", "inference", "classify", "generate"), "predict"),
    "encode": "embed",
    **{"fp16": "float16", "bf16": "bfloat16", "hf": "huggingface", "pytorch": "huggingface"},
    **dict.fromkeys(("distil", "distill"), "finetune --teacher or pretrain --teacher"),
    "num_classes": "num_labels=2",
    "id2label": 'labels=["negative", "positive"]',
    "dropout": "hidden_dropout_rate=0.1",
    "hidden_act": 'activation="gelu"',
    "type_vocab_size": "num_segments=2",
    "lr": "learning_rate=3e-5",
    "num_train_epochs": "num_epochs=3",
    "per_device_train_batch_size": "batch_size=32",
}
_ELSEWHERE = {"fit(max_length)": "from_pretrained(max_length=128)"}
_FEW = 8  # names, which an error lists beside the nearest one


def check_name(name: object, known: Iterable[object], *, what: str, elsewhere: str = "") -> None:
    """Raises InputError, with the nearest or all known names, if `name` is not one of them."""
    if name not in (known := tuple(known)):
        names, ours = [*map(str, known)], _THEIRS.get(str(name), "")
        use = elsewhere or (ours if re.split("[= ]", ours)[0] in names else "")
        hint = f"; use {use}" if use else nearest(str(name), names)
        if not hint or (hint.endswith("?") and len(names) <= _FEW):
            hint = f"{hint or ';'} known: {', '.join(names) or 'none'}"
        raise InputError(f"no {what} is called {name!r}{hint}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns "; did you mean 'NAME'?" with known names that begin so or are near, or ""."""
    forms, form = {each.lower().lstrip("-"): each for each in known}, name.lower().lstrip("-")
    near = [each for each in forms if len(form) > 1 and each.startswith(form)][:3]
    near = near or get_close_matches(form, forms, n=1)
    return f"; did you mean {' or '.join(repr(forms[each]) for each in near)}?" if near else ""


def check_argument(name: str, known: Iterable[str], *, function: str) -> None:
    """Raises InputError, with the name to use, if an argument is not one of the `known`."""
    others = ("self", "kwargs", "config_changes")
    names = [each for each in known if each not in others]
    elsewhere = _ELSEWHERE.get(f"{function}({name})", "")
    check_name(name, names, what=f"argument of {function}", elsewhere=elsewhere)


def suggest_keyword_names(function: Function) -> Function:
    """Makes a function or a class answer an unknown keyword argument with the nearest name.

    A function that takes any keyword does so only while another argument is missing.
    """
    if isinstance(function, type):
        function.__init__ = suggest_keyword_names(function.__init__)
        return function  # pyright: ignore[reportReturnType]
    signature = inspect.signature(function)
    known = signature.parameters
    takes_any = "**" in str(signature)
    called = [each for each in function.__qualname__.split(".") if not each.startswith("_")][-1]

    @functools.wraps(function)
    def call(*args, **values):
        try:
            signature.bind(*args, **values)
        except TypeError as error:
            for name in values:
                if not takes_any or nearest(name, known.keys() - values):
                    check_argument(name, known, function=called)
            hint = "; give them by name" * ("positional" in str(error))
            raise TypeError(f"{called}: {error}{hint}") from None
        return function(*args, **values)

    return call  # pyright: ignore[reportReturnType]


def check_least(settings: Any, least: int, *names: str, most: int = LARGEST_COUNT) -> None:
    """Raises InputError if one of the fields `names` is below `least` or above `most`."""
    for name in names:
        value = getattr(settings, name)
        check(value >= least, f"{name} is {value}; expected at least {least}")
        check(value <= most, f"{name} is {value}; expected at most {most}")


def check_count(name: str, value: Any, *, least: int = 1) -> None:
    """Raises InputError for an argument that is neither None nor a whole number from `least` on."""
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    is_count = value is None or (is_number and int(value) >= least)
    check(is_count, f"{name} is {quoted(value)}; expected a whole number, at least {least}")


# Name of a range in error messages -> whether a number is in the range
_RANGES: dict[str, Callable[[float], bool]] = {
    "a number above 0": lambda value: 0 < value < math.inf,
    "0 or a number above it": lambda value: 0 <= value < math.inf,
    "a rate in [0, 1)": lambda value: 0 <= value < 1,
    "a rate from 0 to 1": lambda value: 0 <= value <= 1,
    "more than 0, up to 1": lambda value: 0 < value <= 1,
    "0 to 4294967295": lambda value: 0 <= value < 2**32,  # valid seeds of NumPy
}


def check_range(settings: Any, expected: str, *names: str) -> None:
    """Raises InputError if a number in one of the fields `names` is not in a range of `_RANGES`."""
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            check(_RANGES[expected](number), f"{name} is {number}; expected {expected}")


def check_choice(settings: Any, name: str, known: Iterable[str]) -> None:
    """Raises InputError if the field `name` does not have one of the `known` values."""
    if (value := getattr(settings, name)) not in (known := tuple(known)):
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(filter(None, known))}")


def check_unused(settings: Any, *names: str, reason: str) -> None:
    """Raises InputError if fields that have no effect for a `reason` differ from their default."""
    for name in names:
        if (value := getattr(settings, name)) != getattr(type(settings), name):
            raise InputError(f"{name}={value} has no effect {reason}; leave it out")


def counted(number: int, unit: str) -> str:
    """Returns a number with its unit, which is plural unless the number is 1, as "1,024 steps"."""
    return f"{number:,} {unit}{'s' * (number != 1)}"


def quoted(value: object) -> str:
    """Returns the `repr` of a value; one of more than 60 characters is cut and ends with "…"."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def listed(problems: list[str], *, most: int = 50, mark: str = "; ") -> str:
    """Joins the first `most` faults into one text that ends with the number of the others."""
    more = [f"and {len(problems) - most:,} more"] * (len(problems) > most)
    return mark.join([*problems[:most], *more])


# Characters that a terminal obeys instead of showing: control characters except line feed and tab,
# and marks of the writing direction; and halves of surrogate pairs, which have no UTF-8.
_NOT_PRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    r"""Returns a text as a terminal may print it: an escape character becomes "\u001b"."""
    return _NOT_PRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def print_field(name: str, text: object, *, file: TextIO | None = None) -> None:
    """Prints a name and what it stands for in two columns."""
    print(f"{name:<12}{printable(text)}", file=file)


def require(package: str, *, what: str) -> None:
    """Raises InputError if a package that `what` needs is not installed."""
    is_installed = importlib.util.find_spec(package) is not None
    check(is_installed, f"{what} needs {package}, which pip install bert-keras installs")


@contextlib.contextmanager
def notes_held_back() -> Iterator[None]:
    """Holds back what is written to stderr in the `with` block, unless it raises an exception.

    The C++ code of TensorFlow prints notes on the machine when it is imported, before it reads
    TF_CPP_MIN_LOG_LEVEL, and no user can act on them.
    """
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
            yield
        except BaseException:
            notes.seek(0)
            os.write(stderr, notes.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def import_tensorflow(*, what: str) -> None:
    """Imports TensorFlow, which `what` needs, without its notes; InputError if it is absent."""
    require("tensorflow", what=what)
    with notes_held_back():
        importlib.import_module("tensorflow").config.list_physical_devices()
    logging.getLogger("absl").setLevel(logging.ERROR)  # TensorFlow Datasets warns of its own calls


def run_command(program: str, command: Callable[[], None], *, debug: bool = False) -> int:
    """Runs a command and reports any exception as one line on stderr that starts with `program`.

    With `debug` the exception is raised. Returns the exit code: 0 for success, 2 for an exception,
    130 for Ctrl-C, 141 if the reader of stdout has ended, and 143 for SIGTERM, which also raises
    KeyboardInterrupt in `command`, so that incomplete files are removed.
    """
    if sys.stderr is not None and not sys.stderr.isatty():
        os.environ.setdefault("TQDM_MININTERVAL", "10")  # seconds between lines of a log
    received = []

    def interrupt(number, _) -> None:
        signal.signal(number, signal.SIG_IGN)  # the removal of files is not interrupted
        received.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # only it gets signals
    previous = signal.signal(signal.SIGTERM, interrupt) if is_main else None
    if isinstance(sys.stdout, io.TextIOWrapper):  # its encoding may lack a character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with short_warnings(program):
            command()
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        print(f"{program}: {'; '.join(('interrupted', *error.args))}", file=sys.stderr)
        return 128 + (received[0] if received else signal.SIGINT)
    except Exception as error:
        if debug:
            raise
        is_read = not isinstance(error, BrokenPipeError) or _is_read(sys.stdout.fileno())
        if is_read:
            print(f"{program}: {_one_line(error)}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # closed or full; drops what the interpreter would try to write at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2 if is_read else 128 + signal.SIGPIPE
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, previous)
    return 0


def _is_read(file: int) -> bool:
    """Returns whether a pipe still has a reader, unlike before `| head` that has seen enough."""
    poll = select.poll()
    poll.register(file, 0)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


def _one_line(error: Exception) -> str:
    text = " ".join(printable(error).split())
    if isinstance(error, InputError):
        return text
    is_full = any(os.strerror(each) in text for each in _FULL)
    if isinstance(error, OSError) and error.strerror:
        text = ": ".join(filter(None, (str(error.filename or ""), error.strerror)))
    elif is_full:  # from C++ or Rust
        text = text[:500]
    elif isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        text = f"not enough memory; use smaller sizes, such as batch_size ({text[:200]})"
    else:
        text = f"{type(error).__name__}: {text[:500]}; --debug shows where"
    return text + "; free disk space and run this again" * is_full
