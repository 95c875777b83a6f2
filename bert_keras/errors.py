"""Defines the exception for mistakes of users, and functions that check and print values."""

import functools
import importlib.util
import inspect
import math
import numbers
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TextIO, TypeVar

Function = TypeVar("Function", bound=Callable)
LARGEST_COUNT = 2**31 - 1  # the largest 32-bit integer; NumPy, TensorFlow and tokenizers use them
LARGEST_SIZE = 2**20  # no layer, batch or vocabulary in use is larger


class InputError(ValueError):
    """An error that the user can correct; the message says how.

    Example:

    ```python
    try:
        preset("huge")
    except InputError as error:
        print(error)
    ```
    """


# Names of other programs, in lower case with underscores -> our names in commands and functions
OTHER_NAMES = {
    "lr": "learning_rate",
    "num_train_epochs": "epochs num_epochs",
    "per_device_train_batch_size": "batch_size",
    "max_seq_length": "max_length",
    "model_name_or_path": "from pretrained model",
    "validation_file": "dev",
    "device": "strategy",
    "fp16": "precision float16",
    "dropout": "hidden_dropout_rate dropout_rate",
    "hidden_act": "activation",
    "type_vocab_size": "num_segments",
    "num_classes": "num_labels labels",
    "train": "finetune pretrain",
    "trainer": "finetune pretrain",
    "bertmodel": "bertencoder",
    "text_classification": "classification",
    "token_classification": "ner",
    "question_answering": "squad1 squad2",
    "sentence_similarity": "sentence_pairs",
}


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Returns "; did you mean 'NAME'?" with the known names for an unknown one, or ""."""

    def form(text: str) -> str:
        return text.lower().lstrip("-").replace("-", "_")

    forms, unknown = {form(each): each for each in known}, form(name)
    others = OTHER_NAMES.get(unknown, unknown.removeprefix("bert_")).split()
    names = [each for each in others if each in forms]
    names = names or [each for each in forms if len(unknown) > 1 and each.startswith(unknown)][:3]
    names = names or get_close_matches(unknown, forms, n=1)
    return f"; did you mean {' or '.join(repr(forms[each]) for each in names)}?" if names else ""


def check_name(name: object, known: Iterable[object], *, what: str) -> None:
    """Raises InputError, with the closest or all known names, if `name` is not one of them."""
    if name not in (known := tuple(known)):
        names = [*filter(None, map(str, known))]
        hint = suggest_name(str(name), names)
        if not hint or len(names) <= 8:
            hint = f"{hint or ';'} known: {', '.join(names) or 'none'}"
        raise InputError(f"no {what} is called {name!r}{hint}")


def check_argument(name: str, known: Iterable[str], *, function: str) -> None:
    """Raises InputError, with the closest name, if an argument is not one of the `known`."""
    names = [each for each in known if each not in ("self", "kwargs", "config_changes")]
    check_name(name, names, what=f"argument of {function}")


def suggest_keyword_names(function: Function) -> Function:
    """Raises an error that suggests the closest name for an unknown keyword argument."""
    if isinstance(function, type):
        function.__init__ = suggest_keyword_names(function.__init__)
        return function  # pyright: ignore[reportReturnType]
    known = inspect.signature(function).parameters
    takes_any = any(each.kind == each.VAR_KEYWORD for each in known.values())
    called = [each for each in function.__qualname__.split(".") if not each.startswith("_")][-1]

    @functools.wraps(function)
    def call(*args, **values):
        for name in values if not takes_any else ():
            check_argument(name, known, function=called)
        return function(*args, **values)

    return call  # pyright: ignore[reportReturnType]


def unexpected_value(name: str, value: object, expected: str) -> InputError:
    """Returns the error for a value that is not as `expected`."""
    return InputError(f"{name} is {value}; expected {expected}")


def check_least(settings: Any, least: int, *names: str, most: int = LARGEST_COUNT) -> None:
    """Raises InputError if one of the fields `names` is below `least` or above `most`."""
    for name in names:
        if not least <= (value := getattr(settings, name)) <= most:
            limit = f"at least {least}" if value < least else f"at most {most}"
            raise unexpected_value(name, value, limit)


def check_count(name: str, value: Any, *, least: int = 1) -> None:
    """Raises InputError unless an argument is None or a whole number of at least `least`."""
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if value is not None and not (is_number and int(value) >= least):
        raise unexpected_value(name, quoted(value), f"a whole number, at least {least}")


# Texts that `check_range` accepts and shows as `expected` -> whether a number is in the range
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
            if not _RANGES[expected](number):
                raise unexpected_value(name, number, expected)


def check_choice(settings: Any, name: str, known: Iterable[str]) -> None:
    """Raises InputError if the field `name` does not have one of the `known` values."""
    check_name(getattr(settings, name), known, what=name)


def check_unused(settings: Any, *names: str, reason: str) -> None:
    """Raises InputError if a field that has no effect, for a `reason`, is not at its default."""
    for name in names:
        if (value := getattr(settings, name)) != getattr(type(settings), name):
            raise InputError(f"{name}={value} has no effect {reason}; leave it out")


def counted(number: int, unit: str) -> str:
    """Returns a number with its unit, in the plural unless the number is 1: "1,024 steps"."""
    return f"{number:,} {unit}{'s' * (number != 1)}"


def quoted(value: object) -> str:
    """Returns the `repr` of a value, cut to 60 characters that end with "…" if it is longer."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def listed(problems: list[str], *, most: int = 50, mark: str = "; ") -> str:
    """Joins the first `most` problems, and appends the number of the others."""
    more = [f"and {len(problems) - most:,} more"] if len(problems) > most else []
    return mark.join([*problems[:most], *more])


# Control characters except line feed and tab; marks of the writing direction; halves of surrogate
# pairs, which UTF-8 cannot encode.
_NOT_PRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    r"""Returns a text that is safe to print: an escape character becomes "\u001b"."""
    return _NOT_PRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def print_field(name: str, text: object, *, file: TextIO | None = None) -> None:
    """Prints a name and a value in two columns."""
    print(f"{name:<12}{printable(text)}", file=file)


def require(package: str, *, what: str) -> None:
    """Raises InputError if a package that `what` needs is not installed."""
    if importlib.util.find_spec(package) is None:
        raise InputError(f"{what} needs {package}; pip install bert-keras installs it")
