"""Recognizes and checks columns of texts, such as lists, NumPy arrays and tensors of strings."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError, quoted

# Half of a surrogate pair, which UTF-8 cannot encode; a JSON escape such as "\ud800" gives one.
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(data: Any) -> bool:
    """Returns whether `data` is a column of strings, or its spec, or a tuple of such columns."""
    if isinstance(data, tuple):
        return bool(data) and all(map(is_text, data))
    if isinstance(data, (str, bytes)):
        return True
    dtype = getattr(data, "dtype", None)
    if isinstance(data, list) or str(dtype) == "object":
        first = next(iter(data), None)
        if isinstance(first, (tuple, list, np.ndarray)):  # words, or pairs, which raise an error
            return any(isinstance(each, str) for each in first)
        return isinstance(first, (str, bytes))
    return "str" in str(dtype) or getattr(dtype, "kind", "") in ("S", "U")


def columns_of(texts: Any) -> tuple[list, ...]:
    """Returns one or several columns of strings as lists; bytes that are not UTF-8 are dropped."""
    columns = []
    for column in texts if isinstance(texts, tuple) else (texts,):
        check_column(column)
        values = column if isinstance(column, list) else column.__array__().tolist()
        columns.append([v.decode("utf-8", "ignore") if isinstance(v, bytes) else v for v in values])
    return tuple(columns)


def checked_columns(*columns: Iterable[str] | None) -> list[list[str]]:
    """Returns the columns that are not None as lists of equally many valid strings."""
    lists = []
    for column in columns:
        if column is not None:
            check_column(column)
            lists.append(list(column))
            check_texts(lists[-1])
    sizes = [len(column) for column in lists]
    if len(set(sizes)) > 1:
        raise InputError(f"the columns have {sizes} texts; expected equally many")
    return lists


def check_column(column: object) -> None:
    """Raises InputError unless `column` is a list or array, for example if it is a string."""
    is_list = hasattr(column, "__iter__") or hasattr(column, "__array__")
    if isinstance(column, (str, bytes)) or not is_list:
        raise InputError(f"texts is {quoted(column)}; expected a list of strings, such as [text]")


def check_texts(texts: Sequence[Any]) -> None:
    """Raises InputError if a text is not a string, or is a string that UTF-8 cannot encode."""
    for index, text in enumerate(texts):
        if not isinstance(text, str) or (not text.isascii() and _SURROGATE.search(text)):
            raise InputError(
                f"text [{index}] is {quoted(text)}; expected a string of UTF-8 (pairs: two lists)"
            )
