"""Reads the comments on the fields of dataclasses, for docstrings and help texts."""

import dataclasses
import inspect
import re
from typing import Any


def field_comments(kind: type) -> dict[str, str]:
    """Returns the comments on the fields of a dataclass, beside or above them, by field."""
    comments, above = {}, []
    for each in reversed(kind.__mro__):
        for line in inspect.getsource(each).splitlines() if dataclasses.is_dataclass(each) else ():
            code, sign, comment = map(str.strip, line.partition("#"))
            if match := re.match(r"(\w+): ", code):
                comments[match[1]] = comment or " ".join(above)
            above = [*above, comment] if sign and not code else []
    return comments


def documented(value: Any) -> Any:
    """Returns a dataclass whose docstring lists its commented fields; other values unchanged."""
    is_dataclass = isinstance(value, type) and dataclasses.is_dataclass(value)
    if not is_dataclass or "Attributes:" in (doc := inspect.getdoc(value) or ""):
        return value
    if rows := [f"    {name}: {text}" for name, text in field_comments(value).items() if text]:
        head, sign, example = doc.partition("Example:")
        parts = (head.rstrip(), "\n".join(("Attributes:", *rows)), f"{sign}{example}")
        value.__doc__ = "\n\n".join(filter(None, parts))
    return value
