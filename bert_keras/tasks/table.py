"""A TSV, CSV or JSON Lines file, or a split of a TFDS builder, in; its rows as text out."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.storage import text_lines
from bert_keras.tasks.tfds import is_tfds, tfds_rows

Row = tuple[str, dict[str, str]]  # where it stands, for errors, and its columns


def table_rows(
    path: str | os.PathLike,
    *,
    columns: Sequence[str],
    headerless: Sequence[str] = (),
    broken: list[str] | None = None,
    lists: Sequence[str] = (),
) -> Iterator[Row]:
    """The rows of a table, each with at least the named `columns`, as ("FILE, line N", values).

    `.tsv`: tab-separated with a header line and no quoting, as GLUE's files. `.csv`: commas, with a
    header line and double quotes. `.jsonl`: one object a line; numbers and booleans become text,
    null is no column, and of `columns` only those in `lists` may be lists, whose texts are joined
    by commas. A place `tfds:NAME:SPLIT`: see
    bert_keras.tasks.tfds.

    `headerless` names the columns of files whose first line is a row, not a header: one that does
    not hold the names of `columns`. Rows of another width than the header are an InputError or,
    where `broken` is given, left out and their places put there. Raises InputError, naming the
    line, for a missing column and bad CSV or JSON.
    """
    if is_tfds(path):
        rows = _as_text(_of_builder(os.fspath(path)), columns, lists)
    else:
        path = Path(path)
        readers = {".tsv": _tsv_lines, ".csv": _csv_lines, ".jsonl": None}
        if path.suffix not in readers:
            known = ", ".join(readers)
            raise InputError(f"{path} ends in {path.suffix!r}; expected one of {known}")
        rows = (
            _as_text(_json_rows(path), columns, lists)
            if path.suffix == ".jsonl"
            else _rows(path, readers[path.suffix](path), columns, headerless, broken)
        )
    empty = True
    for place, values in rows:
        for column in columns:
            if values.get(column) is None:
                names = ", ".join(map(repr, values))
                raise InputError(f"{place} has no column {column!r}; it has {names}")
        empty = False
        yield place, values
    if empty:
        raise InputError(f"{path} has no rows; expected at least one below the header")


def _tsv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    return enumerate((line.split("\t") for line in text_lines(path)), start=1)


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for line in text_lines(path)), strict=True)
    begin = 1
    try:
        for fields in reader:
            yield reader.line_num, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num} is not CSV: {error}; its row begins on line {begin}, "
            "maybe with a quote that is not closed"
        ) from error


def _rows(path: Path, lines, columns, headerless, broken) -> Iterator[Row]:
    header = None
    for number, fields in lines:
        if header is None:
            is_row = headerless and not set(columns) <= set(fields)
            header = tuple(headerless if is_row else fields)
            if len(set(header)) < len(header):
                raise InputError(f"{path} names a column twice in its header: {', '.join(header)}")
            if not is_row:
                continue
        if len(fields) == len(header):
            yield f"{path}, line {number}", dict(zip(header, fields, strict=True))
        elif not any(fields):
            continue  # an empty line
        elif broken is None:
            raise InputError(
                f"{path}, line {number} has {len(fields)} columns; expected {len(header)}, "
                f"{', '.join(header[:12])}"
            )
        else:
            broken.append(f"{path}, line {number}")
    if header is None:
        raise InputError(f"{path} is empty; expected a header line with the names of the columns")


def _json_rows(path: Path) -> Iterator[tuple[str, dict]]:
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number} is not a JSON object with named columns")
        yield f"{path}, line {number}", row


def _of_builder(path: str) -> Iterator[tuple[str, dict]]:
    for number, row in enumerate(tfds_rows(path), start=1):
        yield f"{path}, row {number}", row


def _as_text(rows: Iterable[tuple[str, dict]], columns, lists) -> Iterator[Row]:
    for place, row in rows:
        for name in columns:
            if isinstance(row.get(name), dict if name in lists else (dict, list)):
                what = "an object" if isinstance(row[name], dict) else "a list"
                raise InputError(f"{place} has {what} in the column {name!r}; expected a text")
        yield (
            place,
            {
                name: _joined(value, place)
                if name in lists and isinstance(value, list)
                else _text(value)
                for name, value in row.items()
                if value is not None
            },
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _joined(values: list, place: str) -> str:
    for each in values:
        if not isinstance(each, (str, int, float)) or "," in _text(each):
            raise InputError(f"{place} has {each!r} in a list; expected texts without a comma")
    return ",".join(map(_text, values))
