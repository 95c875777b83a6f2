"""Recognizes and checks columns of texts, such as lists, NumPy arrays and tensors of strings."""

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from bert_keras.errors import LARGEST_COUNT, InputError, quoted

# Half of a surrogate pair, which UTF-8 cannot encode; a JSON escape such as "\ud800" gives one.
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(data: Any) -> bool:
    """Returns whether `data` is a column of strings or of lists of words, or a tuple of columns.

    One string in a column is enough: `checked_list` later refuses other values beside it.
    """
    if isinstance(data, (str, bytes)):
        return True
    if _has_columns(data):
        return bool(data) and all(map(is_text, data))
    dtype = getattr(data, "dtype", None)
    kind = getattr(dtype, "kind", "")
    if dtype is not None and kind != "O":
        return kind in ("S", "T", "U") or "string" in str(dtype).lower()
    is_column = isinstance(data, Sequence) or hasattr(data, "__array__")
    if not is_column or hasattr(data, "columns"):  # a table has columns
        return False
    values = data if isinstance(data, Sequence) else as_list(data)
    return not len(values) or any(map(is_text, values))


def columns_of(texts: Any) -> tuple[list, ...]:
    """Returns one or several columns of strings as lists; raises InputError if they are empty."""
    columns = tuple(map(as_list, texts if _has_columns(texts) else (texts,)))
    if not any(columns):
        raise InputError("the texts are an empty list; expected at least one")
    return columns


def as_list(column: Any) -> list:
    """Returns the values of a column, which may have the shape [N] or [N, 1].

    Bytes are decoded as UTF-8, and invalid bytes are dropped.
    """
    if not isinstance(column, (str, bytes, Mapping)):
        with contextlib.suppress(NotImplementedError, TypeError, ValueError):  # symbolic tensors
            values = column.__array__() if hasattr(column, "__array__") else column
            if getattr(values, "shape", ())[1:] == (1,) and values.dtype.kind in "OSTU":
                values = values[:, 0]
            return [value if type(value) is str else _plain(value) for value in values]
    raise InputError(f"texts is {quoted(column)}; expected a list of strings, such as [text]")


def checked_columns(*columns: Iterable[str] | None) -> list[list[str]]:
    """Returns the columns that are not None as lists of equally many valid strings."""
    lists = [checked_list(column) for column in columns if column is not None]
    sizes = [len(column) for column in lists]
    if len(set(sizes)) > 1:
        raise InputError(f"the columns have {sizes} texts; expected equally many")
    return lists


def check_num_columns(columns: Sequence, fewest: int, most: int) -> None:
    """Raises InputError unless the number of columns of texts is in a range."""
    if not fewest <= len(columns) <= most:
        limit = " or more" if most == LARGEST_COUNT else f" to {most}" * (most > fewest)
        raise InputError(f"there are {len(columns)} columns of texts; expected {fewest}{limit}")


def checked_list(column: Iterable[str]) -> list[str]:
    """Returns a column as a list; raises InputError if a value is not a string of valid UTF-8."""
    texts = as_list(column)
    try:
        "".join(texts).encode()  # faster than a check of each text
    except (TypeError, UnicodeEncodeError) as error:
        wrong = (n for n, t in enumerate(texts) if not isinstance(t, str) or _SURROGATE.search(t))
        index = next(wrong)
        raise InputError(
            f"text [{index}] is {quoted(texts[index])}; expected a string of UTF-8 "
            "(pairs: two lists)"
        ) from error
    return texts


def _has_columns(data: Any) -> bool:
    """Returns whether `data` is a tuple of columns; a tuple with a string is one column."""
    return isinstance(data, tuple) and not any(isinstance(each, (str, bytes)) for each in data)


def _plain(value: Any) -> Any:
    """Converts arrays to lists, and bytes to strings."""
    if hasattr(value, "__array__"):  # an array, a tensor or a NumPy scalar
        value = value.__array__().tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "ignore")
    return list(map(_plain, value)) if isinstance(value, (list, Set)) else value
