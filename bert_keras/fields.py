"""Fields of dataclasses with help texts, which `--help` and the reference show."""

import dataclasses
import inspect
from typing import Any, TypeVar

Dataclass = TypeVar("Dataclass", bound=type)


def setting(default: Any, text: str) -> Any:
    """Returns a field with a default and a help text."""
    return dataclasses.field(default=default, metadata={"help": text})


def help_texts(cls: type) -> dict[str, str]:
    """Returns the help texts of a dataclass by field; fields without a text are omitted."""
    fields = dataclasses.fields(cls)
    return {each.name: each.metadata["help"] for each in fields if "help" in each.metadata}


def document_fields(cls: Dataclass) -> Dataclass:
    """Adds the help texts of the fields to the docstring of a dataclass."""
    summary, heading, example = (inspect.getdoc(cls) or "").partition("Example:")
    rows = "\n".join(f"    {name}: {text}" for name, text in help_texts(cls).items())
    cls.__doc__ = f"{summary.rstrip()}\n\nAttributes:\n{rows}\n\n{heading}{example}".rstrip()
    return cls
