"""Derives command-line options and FIELD=VALUE settings from dataclass fields, and checks them."""

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from types import UnionType
from typing import Any, get_args, get_origin

from bert_keras.errors import InputError

_BOOLEANS = {"true": True, "false": False}


def option(
    default: Any = MISSING,
    *,
    flags: Sequence[str] = (),
    help: str = "",
    default_text: str | None = None,
    either: str | None = None,
    **details: Any,
) -> Any:
    """Declare a dataclass field that is a command-line option.

    The field determines the flag, the type and the default. For example,
    `max_length: int = option(128)` declares the integer option `--max-length`. A `bool` field is a
    flag without a value, and a `tuple` field takes several values. A field without a default is a
    required option.

    Args:
        default: The value if the option is not given.
        flags: The flags; by default two dashes and the field's name.
        help: The help text, one clause; " (default: X)" is appended to it.
        default_text: The text X; by default the default value itself. "" shows none.
        either: A group name. Of the options with the same group name, exactly one must be given.
        details: Other arguments of `ArgumentParser.add_argument`, such as `choices`.
    """
    details |= {"flags": flags, "help": help, "default_text": default_text, "either": either}
    return field(default=default, metadata=details)


def argument(metavar: str, default: Any = MISSING, *, help: str = "", **details: Any) -> Any:
    """Declare a dataclass field that is a positional argument.

    Args:
        metavar: Name of the argument in the help text.
        default: The value if the argument is not given.
        help: The help text.
        details: Other arguments of `ArgumentParser.add_argument`, such as `nargs`.
    """
    return field(
        default=default,
        metadata={"help": help, "metavar": metavar, "is_positional": True, **details},
    )


def group(settings: type, *, only: Collection[str] | None = None) -> Any:
    """Declare a dataclass field that holds options of another dataclass, as {field name: value}.

    The mapping contains only the options that the command line gives.

    Args:
        settings: The other dataclass; each of its fields becomes an option of the command.
        only: Names of the fields to take; None takes all fields.
    """
    return field(default_factory=dict, metadata={"settings": settings, "only": only})


def fixed(default: Any = MISSING) -> Any:
    """Declare a field that neither an option nor FIELD=VALUE can set."""
    return field(default=default, metadata={"is_fixed": True})


def add_options(
    parser: argparse.ArgumentParser, settings: type, *, only: Collection[str] | None = None
) -> None:
    """Add an option for each field of a dataclass.

    The parsed arguments contain only the options that are given, because the dataclass defines the
    defaults.

    Args:
        parser: Parser that gets the options.
        settings: The dataclass.
        only: Names of the fields to add; None adds all fields.
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
    """Build an instance of the dataclass `settings` from the parsed arguments."""
    return settings(**_parsed_values(arguments, settings))


def with_changes(*settings: Any, changes: Iterable[str] | Mapping[str, Any]) -> tuple:
    """Change fields of dataclass instances.

    Args:
        settings: The instances; a None stays None.
        changes: The new value of each field, or texts of the form FIELD=VALUE. A value that is a
            text is converted to the type of the field; commas separate the values of a tuple. Each
            change applies to every instance that has the field.

    Returns:
        The changed instances, in the order of `settings`.

    Raises:
        InputError: If no instance has a field of this name, or if a value does not have the type of
            the field.
    """
    tables = [
        {each.name: each for each in fields(one) if "is_fixed" not in each.metadata} if one else {}
        for one in settings
    ]
    known = [name for table in tables for name in table]
    if isinstance(changes, Mapping):
        texts, values = [f"{name}={value}" for name, value in changes.items()], changes
    else:
        texts = [*changes]
        values = {name: value for name, _, value in (text.partition("=") for text in texts)}
    for text in texts:
        if "=" not in text or text.split("=")[0] not in known:
            raise InputError(
                f"{text!r} is not a setting; expected FIELD=VALUE, where FIELD is one of "
                f"{', '.join(known)}"
            )
    changed = []
    for one, table in zip(settings, tables, strict=True):
        new = {name: _value(values[name], table[name]) for name in values if name in table}
        changed.append(replace(one, **new) if new else one)
    return tuple(changed)


def flag_of(each: Field) -> str:
    """Return the first flag of the option of a dataclass field, such as "--max-length"."""
    return next(iter(each.metadata.get("flags", ())), f"--{each.name.replace('_', '-')}")


def _parsed_values(arguments: argparse.Namespace, settings: type) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for each in fields(settings):
        if inner := each.metadata.get("settings"):
            values[each.name] = _parsed_values(arguments, inner)
        elif each.name in arguments:
            value = getattr(arguments, each.name)
            values[each.name] = tuple(value) if isinstance(value, list) else value
    return values


def _kind(each: Field) -> tuple[type, bool]:
    """Return the type of one value of a field, and whether the field holds several values."""
    kind: Any = each.type
    if isinstance(kind, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    is_several = get_origin(kind) is tuple
    return (get_args(kind)[0] if is_several else kind), is_several


def _integer(text: str) -> int:
    if abs(value := int(text)) >= 2**63:
        raise argparse.ArgumentTypeError(f"{value} is too large; expected at most {2**63 - 1}")
    return value


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("received an empty text; give a value")
    return text


_integer.__name__ = "int"  # argparse states it in its messages
_ARGUMENT_TYPES: dict[type, Callable[[str], Any]] = {int: _integer, str: _text}


def _value(value: Any, each: Field) -> Any:
    """Return the value of a field for a text or for a value of the field's type."""
    if isinstance(value, str):
        return _read(value, each)
    kind, is_several = _kind(each)
    values: Any = value if is_several and isinstance(value, (list, tuple)) else [value]
    accepted = {float: (float, int)}.get(kind, (kind,))
    if not all(isinstance(v, accepted) and (type(v) is not bool or kind is bool) for v in values):
        raise InputError(f"{each.name} is {value!r}; expected {kind.__name__}")
    return tuple(map(kind, values)) if is_several else kind(value)


def _read(text: str, each: Field) -> Any:
    kind, is_several = _kind(each)
    try:
        parts = text.split(",") if is_several else [text]
        values = [_BOOLEANS[part] if kind is bool else kind(part) for part in parts]
    except (ValueError, KeyError) as error:
        expected = f"one of {', '.join(_BOOLEANS)}" if kind is bool else kind.__name__
        raise InputError(f"{f'{each.name}={text}'!r}: expected {expected}") from error
    return tuple(values) if is_several else values[0]


def _add_option(target: Any, each: Field) -> None:
    """Add a field to a parser or to a mutually exclusive group."""
    details = {"default": argparse.SUPPRESS, **each.metadata}
    flags, default_text = details.pop("flags", ()), details.pop("default_text", None)
    details.pop("either", None)
    kind, is_several = _kind(each)
    if kind is bool:
        details.setdefault("action", "store_true")
    if "action" not in details:
        details.setdefault("type", _ARGUMENT_TYPES.get(kind, kind))
        details.setdefault("nargs", "+" if is_several else None)
    if details.pop("is_positional", False):
        target.add_argument(each.name, **details)
        return
    if default_text is None and kind is not bool and each.default not in (MISSING, None, (), ""):
        default_text = str(each.default)
    if default_text:
        details["help"] = f"{details.get('help', '')} (default: {default_text})".strip()
    details |= {"dest": each.name, "required": each.default is MISSING}
    target.add_argument(*(flags or [flag_of(each)]), **details)
