"""Derives command-line options and FIELD=VALUE settings from dataclass fields, and checks them."""

import abc
import argparse
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from types import UnionType
from typing import Any, ClassVar, get_args, get_origin

from bert_keras.errors import InputError

_BOOLEANS = {"true": True, "false": False}


class Command(abc.ABC):
    """A command of a program: a dataclass whose fields are its options.

    Its name is that of the class in lower case, its description the docstring.
    """

    examples: ClassVar[str]

    @abc.abstractmethod
    def run(self) -> None:
        """Do what the command is for; the options are the attributes."""


def option(
    default: Any = MISSING,
    *,
    flags: Sequence[str] = (),
    help: str = "",
    told: str | None = None,
    either: str | None = None,
    **details: Any,
) -> Any:
    """Declare a dataclass field that is an option with a flag.

    The flag, type, and default follow from the field: `max_length: int = option(128)` is
    `--max-length`, an integer; a `bool` takes no value, a `tuple` takes several values, and a field
    without a default is a required option.

    Args:
        default: The value of a command that does not give the option.
        flags: The flags, where they are not the field's name after two dashes.
        help: One clause; " (default: X)" is appended to it.
        told: The default in words, where its value does not explain it; "" for none.
        either: A name that several fields share: exactly one of their options must be given.
        details: Other arguments of `ArgumentParser.add_argument`, such as `choices`.
    """
    details |= {"flags": flags, "help": help, "told": told, "either": either}
    return field(default=default, metadata=details)


def argument(metavar: str, default: Any = MISSING, *, help: str = "", **details: Any) -> Any:
    """Declare a dataclass field that is a positional argument; see `option`."""
    return field(
        default=default,
        metadata={"help": help, "metavar": metavar, "is_positional": True, **details},
    )


def group(settings: type, *, only: Collection[str] | None = None) -> Any:
    """Declare a field `Mapping` that holds the given options of another dataclass by field name."""
    return field(default_factory=dict, metadata={"settings": settings, "only": only})


def fixed(default: Any = MISSING) -> Any:
    """Declare a field that neither an option nor FIELD=VALUE can set."""
    return field(default=default, metadata={"is_fixed": True})


def add_commands(
    parser: argparse.ArgumentParser, commands: Iterable[type[Command]], *, metavar: str = "COMMAND"
) -> None:
    """Add a subparser for each command; the parsed `command` is the one that was chosen."""
    added = parser.add_subparsers(required=True, metavar=metavar)
    for command in commands:
        sub = added.add_parser(
            command.__name__.lower(),
            help=command.__doc__,
            description=command.__doc__,
            epilog=f"example:\n  {command.examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(sub, command)
        sub.set_defaults(command=command)


def add_options(
    parser: argparse.ArgumentParser, settings: type, *, only: Collection[str] | None = None
) -> None:
    """Add an option for each field of a dataclass, or for those fields that `only` names.

    Options that are not given leave no trace in the parsed arguments: the dataclass alone knows the
    defaults.
    """
    exclusive: dict[str | None, Any] = {}
    for each in fields(settings):
        if "is_fixed" in each.metadata or (only is not None and each.name not in only):
            continue
        if inner := each.metadata.get("settings"):
            add_options(parser, inner, only=each.metadata["only"])
            continue
        either = each.metadata.get("either")
        if either is not None and either not in exclusive:
            exclusive[either] = parser.add_mutually_exclusive_group(required=True)
        _add_option(exclusive.get(either, parser), each)


def options_of(arguments: argparse.Namespace, settings: type) -> Any:
    """Build the dataclass from the parsed arguments."""
    return settings(**_given(arguments, settings))


def with_changes(*settings: Any, changes: Iterable[str]) -> tuple:
    """Change dataclass instances by texts `FIELD=VALUE`.

    Args:
        settings: The instances; None among them stays None.
        changes: Each applies to every instance that has the field. The values of a tuple are
            separated by commas.

    Returns:
        The changed instances, in order.

    Raises:
        InputError: For an unknown field and for a value that is not of the field's type.
    """
    tables = [
        {each.name: each for each in fields(one) if "is_fixed" not in each.metadata} if one else {}
        for one in settings
    ]
    values: list[dict[str, Any]] = [{} for _ in settings]
    known = [name for table in tables for name in table]
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in known:
            raise InputError(
                f"{change!r} changes nothing; expected FIELD=VALUE with one of {', '.join(known)}"
            )
        for table, own in zip(tables, values, strict=True):
            if name in table:
                own[name] = _read(text, table[name], change)
    return tuple(
        replace(one, **own) if own else one for one, own in zip(settings, values, strict=True)
    )


def check_least(settings: Any, least: float, *names: str) -> None:
    """Raise InputError for the first of these fields whose value is below `least`."""
    for name in names:
        if getattr(settings, name) < least:
            raise InputError(f"{name} is {getattr(settings, name)}; expected at least {least}")


# What a message calls a range -> whether a number is in it.
_RANGES: dict[str, Callable[[float], bool]] = {
    "a number above 0": lambda value: 0 < value < math.inf,
    "0 or a number above it": lambda value: 0 <= value < math.inf,
    "a rate in [0, 1)": lambda value: 0 <= value < 1,
    "more than 0, up to 1": lambda value: 0 < value <= 1,
    "0 to 4294967295": lambda value: 0 <= value < 2**32,  # NumPy's bound of a seed
}


def check_range(settings: Any, expected: str, *names: str) -> None:
    """Raise InputError for the first of these fields with a number outside of a range.

    Args:
        settings: A dataclass instance.
        expected: The range, a key of `_RANGES`.
        names: Fields that hold a number or a tuple of numbers.
    """
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            if not _RANGES[expected](number):
                raise InputError(f"{name} is {number}; expected {expected}")


def check_choice(settings: Any, name: str, known: Iterable[str]) -> None:
    """Raise InputError where the value of a field is not one of the known ones."""
    if (value := getattr(settings, name)) not in (known := tuple(known)):
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(known)}")


def _given(arguments: argparse.Namespace, settings: type) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for each in fields(settings):
        if inner := each.metadata.get("settings"):
            given[each.name] = _given(arguments, inner)
        elif each.name in arguments:
            value = getattr(arguments, each.name)
            given[each.name] = tuple(value) if isinstance(value, list) else value
    return given


def _kind(each: Field) -> tuple[type, bool]:
    """The type of one value of a field, and whether it holds several."""
    kind: Any = each.type
    if isinstance(kind, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is tuple:
        return get_args(kind)[0], True
    return kind, False


def _read(text: str, each: Field, change: str) -> Any:
    kind, is_several = _kind(each)
    try:
        parts = text.split(",") if is_several else [text]
        values = [_BOOLEANS[part] if kind is bool else kind(part) for part in parts]
    except (ValueError, KeyError) as error:
        expected = f"one of {', '.join(_BOOLEANS)}" if kind is bool else kind.__name__
        raise InputError(f"{change!r}: expected {expected}") from error
    return tuple(values) if is_several else values[0]


def _add_option(target: Any, each: Field) -> None:
    """Add a field to a parser or to a group of one."""
    details = {"default": argparse.SUPPRESS, **each.metadata}
    flags, told = details.pop("flags", ()), details.pop("told", None)
    details.pop("either", None)
    kind, is_several = _kind(each)
    if kind is bool:
        details.setdefault("action", "store_true")
    if "action" not in details:
        details.setdefault("type", kind)
        details.setdefault("nargs", "+" if is_several else None)
    if details.pop("is_positional", False):
        target.add_argument(each.name, **details)
        return
    is_silent = each.default in (MISSING, None, (), "") or kind is bool
    if told is None and not is_silent:
        told = str(each.default)
    if told:
        details["help"] = f"{details.get('help', '')} (default: {told})".strip()
    details |= {"dest": each.name, "required": each.default is MISSING}
    target.add_argument(*(flags or [f"--{each.name.replace('_', '-')}"]), **details)
