"""Reads tables of texts: TSV, CSV, JSON and TFDS."""

import csv
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bert_keras.downstream.tfds import is_tfds, tfds_rows
from bert_keras.errors import InputError, check, counted, quoted
from bert_keras.files import StrPath, existing_file, text_lines

Row = tuple[str, dict[str, str]]  # its location, for error messages, and its columns
SEPARATORS = {".csv": "commas, semicolons, tabs or |", ".tsv": "tabs", ".txt": "tabs"}
OTHERS = "a table of your own needs a task such as classification"
Lines = Iterable[tuple[str, list[str]]]  # the location and the fields of each


def table_rows(
    path: StrPath,
    *,
    columns: Sequence[str] | Mapping[str, Sequence[str]],
    headerless: Sequence[str] = (),
    skips_broken: bool = False,
    lists: Sequence[str] = (),
) -> Iterator[Row]:
    """Yields the rows of a table, as ("FILE, line N", values) with at least the named columns.

    A `.tsv` or `.txt` file has tabs, a header line and no quoting, like GLUE's files, a `.csv` file
    double quotes and commas, semicolons, tabs or `|`. Numbers and booleans of JSON become text, and
    the column `a.b` is the value `b` of an object `a`, as in KLUE's files.

    Args:
        path: A `.tsv`, `.txt`, `.csv`, `.jsonl` or `.json` file, or `tfds:NAME:SPLIT`.
        columns: The columns that each row must have, or those of each setting that names some.
        headerless: The column names of a file without a header line. A first line that contains all
            names of `columns` is still taken as a header.
        skips_broken: Whether rows with a wrong number of columns are skipped and counted on stderr.
        lists: Columns of JSON and TFDS that may be lists, whose texts are joined by commas.
    """
    settings = columns if isinstance(columns, Mapping) else {}
    columns = [*chain(*settings.values())] if settings else [*columns]
    suffix = Path(path).suffix
    if is_tfds(path):
        rows = ((f"{path}, row {n}", r) for n, r in enumerate(tfds_rows(os.fspath(path)), start=1))
        rows = _as_text(rows, lists)
    elif suffix in (".jsonl", ".json"):
        rows = _as_text(_json_rows(path), lists)
    elif suffix in SEPARATORS:
        lines = _csv_lines(path, columns) if suffix == ".csv" else _tsv_lines(path)
        rows = _rows(lines, columns, headerless, skips_broken)
    else:
        found = f"{path} ends in {suffix!r}" if suffix else f"the name {path} has no extension"
        raise InputError(f"{found}; expected .tsv, .txt, .csv, .jsonl or .json")
    location = ""
    for location, values in rows:
        for column in columns:
            if column not in values:
                names = ", ".join(map(quoted, values))
                is_divided = len(columns) == 1 or len(values) > 1 or {*values} & {*columns}
                expected = f"{len(columns)} columns with {SEPARATORS.get(suffix)} between them"
                found = f"{path} has one column, {names}"
                check(is_divided or suffix not in SEPARATORS, f"{found}; expected {expected}")
                headed = (path, "its header has"), (location, "it has")
                where, has = headed[suffix not in SEPARATORS]
                remedy = f"expected {', '.join(map(quoted, columns))}; {OTHERS}"
                found = f"{where} is not in the format of this task; {has} {names}"
                if settings:
                    remedy = _example(settings, values)
                    found = f"{where} has no column {column!r}; {has} {names}"
                raise InputError(f"{found}; {remedy}")
        yield location, values
    if not location:
        header = next(iter(text_lines(path)), "") if suffix in SEPARATORS else ""
        why = ", because its lines end in a carriage return alone" * ("\r" in header)
        raise InputError(f"{path} has no rows{' below the header' * bool(header)}{why}")


def _example(settings: Mapping[str, Sequence[str]], row: Mapping[str, str]) -> str:
    """Returns "name yours, such as ..." with the other columns if there are as many as missing."""
    used = [*chain(*settings.values())]
    missing, others = [n for n in used if n not in row], [n for n in row if n not in used]
    if missing[-1:] == used[-1:] and {"text_columns"} < {*settings}:  # the shortest is the label
        others.sort(key=min(others, key=lambda name: len(row[name]), default="").__eq__)
    is_plausible = len(missing) == len(others) and max(map(len, others), default=0) < 30
    names = dict(zip(missing, others, strict=False)) if is_plausible else {}
    values = {
        setting: ",".join(name if name in row else names.get(name, "COLUMN") for name in columns)
        for setting, columns in settings.items()
    }
    example = " ".join(f"{setting}={shlex.quote(value)}" for setting, value in values.items())
    return f"name yours, such as {example} (after --set, or in changes= in Python)"


def _tsv_lines(path: StrPath) -> Lines:
    for number, line in enumerate(text_lines(path), start=1):
        yield f"{path}, line {number}", line.split("\t")


def _csv_lines(path: StrPath, columns: Sequence[str]) -> Lines:
    header = next(iter(text_lines(path)), "")
    splits = {mark: next(csv.reader([header], delimiter=mark), []) for mark in ",;\t|"}
    delimiter = max(splits, key=lambda m: (len({*columns} & {*splits[m]}), len(splits[m])))
    lines = (f"{line}\n" for line in text_lines(path))
    reader, start = csv.reader(lines, delimiter=delimiter, strict=True), 1
    try:
        for fields in reader:
            yield f"{path}, line {reader.line_num}", fields
            start = reader.line_num + 1
    except csv.Error as error:
        fault = f"{error}; a quote in this row may not be closed"
        raise InputError(f"{path}, line {start} is not CSV: {fault}") from error


def _rows(lines: Lines, columns, headerless, skips_broken) -> Iterator[Row]:
    header, skipped = None, []
    for location, fields in lines:
        if header is None:
            is_row = headerless and not set(columns) <= set(fields)
            header = headerless if is_row else fields
            if not is_row:
                continue
        if not any(fields):
            continue
        if len(fields) == len(header):
            yield location, dict(zip(header, fields, strict=True))
        elif skips_broken:
            skipped.append(location)
        else:
            found = f"{location} has {counted(len(fields), 'column')}"
            found += f"; expected {len(header)}, {', '.join(header[:12])}"
            is_quotable = ".csv, line" in location and len(fields) > len(header)
            remedy = "; put a text that contains the separator in double quotes"
            raise InputError(found + remedy * is_quotable)
    if skipped:
        what = f"{counted(len(skipped), 'row')} with a wrong number of columns"
        print(f"skipped {what}; the first is {skipped[0]}", file=sys.stderr)


def _json_rows(path: StrPath) -> Iterator[tuple[str, Any]]:
    if Path(path).suffix == ".json":
        text = existing_file(path).read_bytes()
        found = f"{path} is not a JSON list; a file with an object on each line ends in .jsonl"
        check(text.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"["), found)
        items = json_values(text, location=os.fspath(path))
        yield from ((f"{path}, item {number}", item) for number, item in enumerate(items, start=1))
        return
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            location = f"{path}, line {number}"
            yield location, json_values(line, location=location)


def json_values(text: str | bytes, *, location: str) -> Any:
    """Returns the values of a JSON text; raises InputError, which names `location`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, " * (error.lineno > 1) + f"column {error.colno}"
        near = repr(error.doc[error.pos :][:20]) if error.doc[error.pos :].strip() else "the end"
        raise InputError(f"{location} is not valid JSON at {where}, near {near}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{location} is not valid JSON: {error}") from error


def _as_text(rows: Iterable[tuple[str, Any]], lists: Sequence[str]) -> Iterator[Row]:
    for location, row in rows:
        check(isinstance(row, dict), f"{location} is not a JSON object with named columns")
        yield location, {n: _text(v) for n, v in _named_values(row, lists) if v is not None}


def _named_values(item: dict, lists: Sequence[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in item.items():
        name = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _named_values(value, lists, f"{name}.")
        elif isinstance(value, list) and name in lists:
            texts = [*map(_text, value)]
            check("," not in "".join(texts), f"{texts} has a comma, which separates labels")
            yield name, ",".join(texts)
        elif not isinstance(value, list):
            yield name, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def required_text(values: Mapping[str, str], column: str, *, location: str) -> str:
    """Returns the text of a column; raises InputError if it is empty."""
    check(values[column].strip(), f"{location} has an empty {column}; expected a text")
    return values[column]
