"""Griffe extension: lists the commented fields of a dataclass as attributes of the class."""

import functools
import re
from pathlib import Path
from typing import Any

import griffe

# The comment after a field, outside of quotation marks.
_TRAILING = re.compile(r"""^(?:[^"'#]|"[^"]*"|'[^']*')*\#\s?(.*)$""")


class FieldComments(griffe.Extension):
    """Adds a section `Attributes:` to the docstring of each dataclass with commented fields."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Griffe calls it after it has collected a class with its members."""
        if "dataclass" not in cls.labels or cls.docstring is None:
            return
        comments = {  # a field of a base class is in the file of that class
            name: _comment(_lines(field.filepath), first=field.lineno - 1, last=field.endlineno)
            for name, field in cls.attributes.items()
            if field.docstring is None
        }
        rows = [f"    {name}: {comment}" for name, comment in comments.items() if comment]
        if rows:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)


@functools.cache
def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def _comment(lines: list[str], *, first: int, last: int) -> str:
    """The comment on the lines [first, last) of a field, or else on the lines above it."""
    trailing = [match[1] for line in lines[first:last] if (match := _TRAILING.match(line))]
    above: list[str] = []
    while not trailing and lines[first - 1].lstrip().startswith("#"):
        first -= 1
        above.insert(0, lines[first].strip().removeprefix("# "))
    return " ".join(trailing or above)
