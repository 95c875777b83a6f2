"""A TSV, CSV or JSON Lines file in, its rows as columns of text out."""

import csv
import json
import os
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.storage import text_lines


def read_table(path: str | os.PathLike, *, columns: tuple[str, ...]) -> dict[str, list[str]]:
    """The named columns of every row, in file order.

    `.tsv`: tab-separated with a header line and no quoting, as GLUE's files. `.csv`: commas, with a
    header line and double quotes. `.jsonl`: one object a line; numbers and booleans become text.
    Raises InputError, naming the line, for a missing column, a row of another width or bad JSON.
    """
    path = Path(path)
    readers = {".tsv": _tsv_rows, ".csv": _csv_rows, ".jsonl": _json_rows}
    if path.suffix not in readers:
        raise InputError(f"{path} ends in {path.suffix!r}; expected one of {', '.join(readers)}")
    table: dict[str, list[str]] = {column: [] for column in columns}
    for line, row in readers[path.suffix](path):
        for column in columns:
            if row.get(column) is None:
                raise InputError(
                    f"{path}, line {line} has no column {column!r}; it has {', '.join(row)}"
                )
            table[column].append(row[column])
    if not table[columns[0]]:
        raise InputError(f"{path} has no rows; expected at least one below the header")
    return table


def _tsv_rows(path: Path):
    return _rows(path, (line.split("\t") for line in text_lines(path)))


def _csv_rows(path: Path):
    reader = csv.reader((f"{line}\n" for line in text_lines(path)), strict=True)
    try:
        yield from _rows(path, reader)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num} is not CSV: {error}") from error


def _rows(path: Path, lines):
    header = next(lines, None)
    if header is None:
        raise InputError(f"{path} is empty; expected a header line with the names of the columns")
    for number, fields in enumerate(lines, start=2):
        if len(fields) != len(header):
            raise InputError(
                f"{path}, line {number} has {len(fields)} columns; the header has {len(header)}"
            )
        yield number, dict(zip(header, fields, strict=True))


def _json_rows(path: Path):
    for number, line in enumerate(text_lines(path), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number} is not a JSON object with named columns")
        yield (
            number,
            {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in row.items()
                if value is not None
            },
        )
