"""Reads tables of texts (TSV, CSV, JSON, TFDS), and writes predictions as numbered rows."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bert_keras.downstream.tfds import is_tfds, tfds_rows
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, existing_file, text_lines, write_text
from bert_keras.text.encode import SURROGATE

Row = tuple[str, dict[str, str]]  # its location, for error messages, and its columns


def table_rows(
    path: StrPath,
    *,
    columns: Sequence[str],
    headerless: Sequence[str] = (),
    broken: list[str] | None = None,
    lists: Sequence[str] = (),
) -> Iterator[Row]:
    """Yields the rows of a table, as ("FILE, line N", values) with at least the named columns.

    Args:
        path: The table. A `.tsv` or `.txt` file has tab-separated columns, a header line and no
            quoting, like GLUE's files. A `.csv` file has comma-separated columns, a header line and
            double quotes. A `.jsonl` file has one object per line; numbers and booleans become
            text, and null means a missing column. A `.json` file is a list of such objects, and
            the column `a.b` is the value `b` of an object `a`, as in KLUE's files. For
            `tfds:NAME:SPLIT`, see bert_keras.downstream.tfds.
        columns: The columns that each row must have.
        headerless: The column names of a file without a header line. A first line that contains all
            names of `columns` is still taken as a header.
        broken: A list that collects the locations of rows with a wrong number of columns, which
            are skipped. With None, such a row raises InputError.
        lists: Columns of JSON Lines and TFDS that may be lists; their texts are joined by commas.

    Raises:
        InputError: A column is missing, or the file is empty or not valid; the message names the
            line.
    """
    suffix = Path(path).suffix
    if is_tfds(path):
        builder = enumerate(tfds_rows(os.fspath(path)), start=1)
        rows = _as_text(((f"{path}, row {n}", row) for n, row in builder), columns, lists)
    elif suffix == ".jsonl":
        rows = _as_text(_json_rows(path), columns, lists)
    elif suffix == ".json":
        rows = _as_text(_json_items(path), columns, lists)
    elif suffix in (".tsv", ".txt"):
        lines = enumerate((line.split("\t") for line in text_lines(path)), start=1)
        rows = _rows(path, lines, columns, headerless, broken)
    elif suffix == ".csv":
        rows = _rows(path, _csv_lines(path), columns, headerless, broken)
    else:
        raise InputError(
            f"{path} ends in {suffix!r}; expected one of .tsv, .txt, .csv, .jsonl, .json"
        )
    is_empty = True
    for location, values in rows:
        for column in columns:
            if column not in values:
                names = ", ".join(map(repr, values))
                raise InputError(f"{location} has no column {column!r}; it has {names}")
        is_empty = False
        yield location, values
    if is_empty:
        raise InputError(f"{path} has no rows; expected at least one")


def write_numbered(
    path: StrPath,
    rows: Iterable[Sequence[str]],
    *,
    header: Sequence[str],
    separator: str = "\t",
) -> None:
    """Writes a table whose first column is the number of the row, counted from 0.

    Args:
        path: The file to write.
        rows: The other columns of each row.
        header: The names of the columns, with that of the row number.
        separator: The text between two columns.
    """
    lines = [header, *([str(number), *row] for number, row in enumerate(rows))]
    write_text(path, "".join(f"{separator.join(line)}\n" for line in lines))


def read_numbered(
    path: StrPath, *, header: Sequence[str], num_rows: int, separator: str = "\t"
) -> list[tuple[str, list[str]]]:
    """Reads a table that `write_numbered` writes.

    Args:
        path: The file.
        header: The names with which the header line must start.
        num_rows: The expected number of rows.
        separator: The text between two columns.

    Returns:
        For each row its location, as "FILE, line N", and its columns without the row number.

    Raises:
        InputError: The header differs, a row number is wrong, or the number of rows differs; the
            message names the line.
    """
    rows = []
    for line_number, line in enumerate(text_lines(path), start=1):
        location, fields = f"{path}, line {line_number}", line.split(separator)
        expected = list(header) if line_number == 1 else [str(line_number - 2)]
        if fields[: len(expected)] != expected or len(fields) < 2:
            text = separator.join([*expected, header[1]][:2])
            raise InputError(f"{location} is {line[:60]!r}; expected {text!r}")
        rows.append((location, fields[1:]))
    if len(rows) != num_rows + 1:
        raise InputError(
            f"{path} has {counted(max(len(rows) - 1, 0), 'prediction')}; expected {num_rows}, one "
            "for each example in the same order"
        )
    return rows[1:]


def _csv_lines(path: StrPath) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for line in text_lines(path)), strict=True)
    start = 1
    try:
        for fields in reader:
            yield reader.line_num, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num} is not CSV: {error}; the row starts on line {start} "
            "and may have a quote that is not closed; a text that is too long for CSV needs a "
            ".jsonl file"
        ) from error


def _rows(path: StrPath, lines, columns, headerless, broken) -> Iterator[Row]:
    header = None
    for number, fields in lines:
        location = f"{path}, line {number}"
        if header is None:
            is_row = headerless and not set(columns) <= set(fields)
            header = tuple(headerless if is_row else fields)
            if len(set(header)) < len(header):
                raise InputError(f"{path} names a column twice in its header: {', '.join(header)}")
            if not is_row:
                continue
        if len(fields) == len(header):
            yield location, dict(zip(header, fields, strict=True))
        elif any(fields) and broken is not None:
            broken.append(location)
        elif any(fields):  # empty lines are skipped
            raise InputError(
                f"{location} has {counted(len(fields), 'column')}; expected {len(header)}, "
                f"{', '.join(header[:12])}"
            )
    if header is None:
        raise InputError(f"{path} is empty; expected a header line with the names of the columns")


def _json_rows(path: StrPath) -> Iterator[tuple[str, dict]]:
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number} is not a JSON object with named columns")
        yield f"{path}, line {number}", row


def _json_items(path: StrPath) -> Iterator[tuple[str, dict]]:
    try:
        items = json.loads(existing_file(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise InputError(f"{path} is not a JSON list; expected a list of objects, one for each row")
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            raise InputError(f"{path}, item {number} is not a JSON object with named columns")
        yield f"{path}, item {number}", dict(_named_values(item))


def _named_values(item: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in item.items():
        if isinstance(value, dict):
            yield from _named_values(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _as_text(rows: Iterable[tuple[str, dict]], columns, lists) -> Iterator[Row]:
    for location, row in rows:
        values = {}
        for name, value in row.items():
            if name in lists and isinstance(value, list):
                value = ",".join(_text_without_comma(each, location) for each in value)
            elif name in columns and isinstance(value, dict | list):
                what = "an object" if isinstance(value, dict) else "a list"
                raise InputError(f"{location} has {what} in the column {name!r}; expected a text")
            if value is not None:
                values[name] = _text(value)
                if SURROGATE.search(values[name]):
                    raise InputError(
                        f"{location} has half of a surrogate pair in the column {name!r}; expected "
                        "valid Unicode"
                    )
        yield location, values


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text_without_comma(value: object, location: str) -> str:
    if not isinstance(value, str | int | float) or "," in _text(value):
        raise InputError(f"{location} has {value!r} in a list; expected texts without a comma")
    return _text(value)
