"""FIELD=VALUE texts in, changed settings out."""

import dataclasses
from collections.abc import Iterable
from typing import get_args, get_origin

from bert_keras.errors import InputError


def changed(*settings, changes: Iterable[str]) -> tuple:
    """The dataclasses `settings`, each with those of the `FIELD=VALUE` changes that are its own;
    None among them stays None.

    A field of texts or numbers takes several, with commas between them. Raises InputError for an
    unknown field and for a value that cannot be read as the field's type.
    """
    fields = [
        {f.name: f.type for f in dataclasses.fields(each)} if each else {} for each in settings
    ]
    values: list[dict] = [{} for _ in settings]
    settled = ("name", "labels", "teacher")
    known = [name for types in fields for name in types if name not in settled]
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in known:
            raise InputError(
                f"{change!r} changes nothing; expected FIELD=VALUE with one of {', '.join(known)}"
            )
        for types, own in zip(fields, values, strict=True):
            if name in types:
                own[name] = _read(text, types[name], change)
    return tuple(
        dataclasses.replace(each, **own) if own else each
        for each, own in zip(settings, values, strict=True)
    )


def _read(text: str, kind, change: str):
    if get_origin(kind) is tuple:
        return tuple(_read(part, get_args(kind)[0], change) for part in text.split(","))
    if kind is bool:
        if text not in (known := ("true", "false")):
            raise InputError(f"{change!r}: expected one of {', '.join(known)}")
        return text == "true"
    try:
        return kind(text)
    except ValueError as error:
        raise InputError(f"{change!r}: expected {kind.__name__}") from error
