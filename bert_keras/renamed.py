"""Accepts former names of arguments, fields and values for one release, with a warning."""

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

Renamed = TypeVar("Renamed", bound=Callable)
_REMOVED = "the old name will be removed in 0.4"


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warns that `old` is now called `new`."""
    warnings.warn(f"{old} is now {new}; {_REMOVED}", DeprecationWarning, stacklevel=stacklevel)


def with_new_names(
    values: Mapping[str, Any], names: Mapping[str, str], *, stacklevel: int = 4
) -> dict[str, Any]:
    """Returns `values` with the new name in place of each former one, {former: new} in `names`."""
    former = {name: value for name, value in values.items() if name in names}
    for name in former:
        warn_renamed(name, names[name], stacklevel=stacklevel)
    others = {name: value for name, value in values.items() if name not in names}
    # `dataclasses.replace` gives both names, of which the former has the new value.
    return {**others, **{names[name]: value for name, value in former.items()}}


def accepts_former_names(**names: str) -> Callable[[Renamed], Renamed]:
    """Makes a function or a dataclass accept former names of keyword arguments, former="new"."""

    def decorate(renamed: Any) -> Any:
        function = renamed.__init__ if isinstance(renamed, type) else renamed

        @functools.wraps(function)
        def call(*args, **values):
            return function(*args, **with_new_names(values, names))

        if isinstance(renamed, type):
            renamed.__init__ = call
            return renamed
        return call

    return decorate


@contextlib.contextmanager
def short_warnings(program: str) -> Iterator[None]:
    """Prints the warnings of a command, those of former names included, as one line each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", f".*{_REMOVED}", DeprecationWarning)
        warnings.showwarning = lambda text, *_: print(f"{program}: note: {text}", file=sys.stderr)
        yield
