"""Reads tables of texts: TSV, CSV, JSON and TFDS."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bert_keras.downstream.tfds import is_tfds, tfds_rows
from bert_keras.errors import InputError, check, counted
from bert_keras.files import StrPath, existing_file, text_lines
from bert_keras.text.encode import SURROGATE

Row = tuple[str, dict[str, str]]  # its location, for error messages, and its columns
CSV_SEPARATORS = ",;\t|"


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
            quoting, like GLUE's files. A `.csv` file has a header line, double quotes, and columns
            that one of `CSV_SEPARATORS` separates. A `.jsonl` file has one object per line, and a
            `.json` file is a list of objects; numbers and booleans become text, null means a
            missing column, and the column `a.b` is the value `b` of an object `a`, as in KLUE's
            files. `tfds:NAME:SPLIT` is a split of TFDS.
        columns: The columns that each row must have.
        headerless: The column names of a file without a header line. A first line that contains all
            names of `columns` is still taken as a header.
        broken: A list that collects the locations of rows with a wrong number of columns, which
            are skipped. With None, such a row raises InputError.
        lists: Columns of JSON and TFDS that may be lists; their texts are joined by commas.
    """
    suffix = Path(path).suffix
    if is_tfds(path):
        builder = enumerate(map(_named_values, tfds_rows(os.fspath(path))), start=1)
        rows = _as_text(((f"{path}, row {n}", dict(row)) for n, row in builder), columns, lists)
    elif suffix in (".jsonl", ".json"):
        rows = _as_text(_json_rows(path), columns, lists)
    elif suffix in (".tsv", ".txt", ".csv"):
        lines = _csv_lines(path, columns) if suffix == ".csv" else _tsv_lines(path)
        rows = _rows(path, lines, columns, headerless, broken)
    else:
        raise InputError(f"{path} ends in {suffix!r}; expected .tsv, .txt, .csv, .jsonl or .json")
    location = ""
    for location, values in rows:
        for column in columns:
            if column not in values:
                names = ", ".join(map(repr, values))
                raise InputError(f"{location} has no column {column!r}; it has {names}")
        yield location, values
    check(location, f"{path} has no rows; expected at least one")


def _tsv_lines(path: StrPath) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text_lines(path), start=1):
        if number == 1 and "\r" in line:
            raise InputError(f"{path} ends its lines in CR alone; convert it: tr '\\r' '\\n'")
        yield number, line.split("\t")


def _csv_lines(path: StrPath, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    lines = (f"{line}\n" for line in text_lines(path))
    header = next(lines, "")
    headers = {each: next(csv.reader([header], delimiter=each), []) for each in CSV_SEPARATORS}
    separator = next((each for each in headers if {*columns} <= {*headers[each]}), ",")
    reader = csv.reader(chain([header], lines), delimiter=separator, strict=True)
    start = 1
    try:
        for fields in reader:
            yield reader.line_num, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num} is not CSV: {error}; the row starts on line {start} "
            "and may have a quote that is not closed"
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


def _json_rows(path: StrPath) -> Iterator[tuple[str, dict]]:
    if Path(path).suffix == ".json":
        items = json_values(existing_file(path).read_bytes(), location=os.fspath(path))
        check(isinstance(items, list), f"{path} is not a JSON list of objects, one for each row")
        rows = ((f"{path}, item {number}", item) for number, item in enumerate(items, start=1))
    else:
        lines = ((f"{path}, line {n}", line) for n, line in enumerate(text_lines(path), start=1))
        rows = ((where, json_values(line, location=where)) for where, line in lines if line.strip())
    for location, row in rows:
        check(isinstance(row, dict), f"{location} is not a JSON object with named columns")
        yield location, dict(_named_values(row))


def json_values(text: str | bytes, *, location: str) -> Any:
    """Returns the values of a JSON text; raises InputError, which names `location`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{location} is not JSON: {error}") from error


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
            if isinstance(value, list) and name in (*columns, *lists):
                texts = [each if isinstance(each, str) else json.dumps(each) for each in value]
                if name not in lists or "," in "".join(texts):
                    raise InputError(f"{location} has a list in {name!r}; expected a text")
                value = ",".join(texts)
            if value is not None:
                values[name] = value if isinstance(value, str) else json.dumps(value)
                if SURROGATE.search(values[name]):
                    raise InputError(f"{location} has half of a surrogate pair in {name!r}")
        yield location, values
