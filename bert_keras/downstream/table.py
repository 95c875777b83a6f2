"""Reads tables of texts: TSV, CSV, JSON and TFDS."""

import contextlib
import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_keras.errors import LARGEST_COUNT, InputError, counted, quoted, require
from bert_keras.files import StrPath, existing_file, text_lines

PREFIX = "tfds:"
WITH_HEADER = (".csv", ".tsv", ".txt")


class Row(NamedTuple):
    """A row of a table."""

    location: str  # "FILE, line N", for error messages
    values: dict[str, Any]  # column -> text


def table_rows(
    path: StrPath,
    *,
    columns: Sequence[str] | Mapping[str, Sequence[str]],
    headerless: Sequence[str] = (),
    skips_broken: bool = False,
    lists: Sequence[str] = (),
    keeps_blank: bool = False,
) -> Iterator[Row]:
    """Yields the rows of a table, each with at least the named columns.

    A `.tsv` or `.txt` file has tabs, a header line and no quoting, like GLUE's files. A `.csv` file
    has double quotes, and commas, semicolons, tabs or `|` between its columns. Numbers and booleans
    of JSON become text, and the column `a.b` is the value `b` of an object `a`, as in KLUE's files.

    Args:
        path: A `.tsv`, `.txt`, `.csv`, `.jsonl` or `.json` file, or `tfds:NAME:SPLIT`.
        columns: The columns that each row must have. A dict from the name of a task's setting to
            its columns lets the error for a missing column suggest the setting.
        headerless: The column names of a file without a header line. If the first line contains all
            names of `columns`, it is still a header.
        skips_broken: Whether to skip rows with a wrong number of columns. Their number is printed.
        lists: Columns of JSON and TFDS that may be lists; their texts are joined by commas.
        keeps_blank: Whether a row whose texts are all empty is an example, as in a file to predict.
            A blank line is such a row in a table of one column, otherwise an error, except at the
            end of the file.
    """
    settings = columns if isinstance(columns, Mapping) else {}
    needed = list(chain(*settings.values())) if settings else list(columns)
    suffix = Path(path).suffix
    if is_tfds(path):
        objects = enumerate(tfds_rows(os.fspath(path)), start=1)
        rows = _object_rows(((f"{path}, row {n}", each) for n, each in objects), lists)
    elif suffix in (".jsonl", ".json"):
        rows = _object_rows(_json_objects(path), lists)
    elif suffix in WITH_HEADER:
        lines = _csv_lines(path, needed) if suffix == ".csv" else _tab_lines(path)
        rows = _rows_below_header(lines, needed, headerless, skips_broken, keeps_blank)
    else:
        raise InputError(f"{path} is not a .tsv, .txt, .csv, .jsonl or .json file; rename it")
    is_empty = True
    for row in rows:
        is_empty = False
        missing = [column for column in needed if row.values.get(column) is None]
        if missing:
            place = os.fspath(path) if suffix in WITH_HEADER else row.location
            raise _missing_column(missing[0], row, place=place, settings=settings)
        yield row
    if is_empty:
        raise InputError(f"{path} has no rows; expected one or more, below a header except in JSON")


def _missing_column(
    column: str, row: Row, *, place: str, settings: Mapping[str, Sequence[str]]
) -> InputError:
    if column in row.values:
        return InputError(f"{row.location} has null in the column {column!r}; expected a text")
    hint = "a table of your own needs the task classification"
    if settings:
        options = " ".join(f"{setting}=NAME" for setting, names in settings.items() if names)
        hint = f"name yours: --set {options} (changes= in Python)"
    existing = ", ".join(map(quoted, row.values)) or "none"
    return InputError(f"{place} has no column {column!r}, only {existing}; {hint}")


def _tab_lines(path: StrPath) -> Iterator[tuple[str, list[str]]]:
    """Yields the location and the fields of each line."""
    for number, text in enumerate(text_lines(path), start=1):
        yield f"{path}, line {number}", text.split("\t")


def _csv_lines(path: StrPath, columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Same as `_tab_lines`; chooses the separator with which the header has most of `columns`."""
    header = next(iter(text_lines(path)), "")

    def count_columns(separator: str) -> tuple[int, int]:
        """Returns the numbers of known columns and of all columns."""
        names = next(csv.reader([header], delimiter=separator), [])
        return len({*columns} & {*names}), len(names)

    num_skipped = int(len(header) == 5 and header.startswith("sep="))  # a line for Excel
    separator = header[-1] if num_skipped else max(",;\t|", key=count_columns)
    csv.field_size_limit(LARGEST_COUNT)
    lines = (f"{line}\n" for line in islice(text_lines(path), num_skipped, None))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    first_line = num_skipped + 1  # of the row that the reader reads
    try:
        for fields in reader:
            last_line = num_skipped + reader.line_num
            yield f"{path}, line {last_line}", fields
            first_line = last_line + 1
    except csv.Error as error:
        location = f"{path}, line {first_line}"
        raise InputError(f"{location} is not CSV ({error}); close its quotes") from error


def _rows_below_header(
    lines: Iterable[tuple[str, list[str]]],
    columns: Sequence[str],
    headerless: Sequence[str],
    skips_broken: bool,
    keeps_blank: bool,
) -> Iterator[Row]:
    """Yields the rows of a file with separators; for the arguments, see `table_rows`."""
    header: Sequence[str] = ()
    skipped: list[str] = []  # locations
    blank = ""  # location of a blank line, which may be at the end of a file to predict
    for location, fields in lines:
        fields = fields or [""]  # the csv module returns no field for a blank line
        if not header:
            has_header = not headerless or {*columns} <= {*fields}
            header = fields if has_header else headerless
            repeated = [name for name in header if name and header.count(name) > 1]
            if repeated:
                raise InputError(f"{location} has two columns {repeated[0]!r}; rename one")
            if has_header:
                continue
        has_all_columns = len(fields) == len(header)
        if not any(fields) and not (keeps_blank and has_all_columns):
            blank = location if keeps_blank else ""
            continue
        if blank:
            raise InputError(f"{blank} is blank between rows to predict; remove the line")
        if has_all_columns:
            yield Row(location, dict(zip(header, fields, strict=True)))
        elif skips_broken:
            skipped.append(location)
        else:
            widths = f"{counted(len(fields), 'column')}, the header {len(header)}"
            hint = "in a .csv file, quote texts that contain the separator"
            raise InputError(f"{location} has {widths}; {hint}")
    if skipped:
        rows = counted(len(skipped), "row")
        print(f"skipped {rows} of another width; the first is {skipped[0]}", file=sys.stderr)


def _json_objects(path: StrPath) -> Iterator[tuple[str, Any]]:
    """Yields the location and the value of each item of a .json list or line of a .jsonl file."""
    if Path(path).suffix == ".json":
        items = parse_json(existing_file(path).read_bytes(), location=os.fspath(path))
        for number, item in enumerate(items, start=1):
            yield f"{path}, item {number}", item
        return
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            location = f"{path}, line {number}"
            yield location, parse_json(line, location=location)


def parse_json(text: str | bytes, *, location: str) -> Any:
    """Returns the values of a JSON text; raises InputError, which names `location`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{location} is not valid JSON: {error}") from error


def _object_rows(objects: Iterable[tuple[str, Any]], lists: Sequence[str]) -> Iterator[Row]:
    """Yields the rows of (location, JSON value) pairs."""
    for location, value in objects:
        columns = value if isinstance(value, dict) else {}  # other values have no columns
        yield Row(location, dict(_named_texts(columns, lists, location)))


def _named_texts(
    columns: Mapping[str, Any], lists: Sequence[str], location: str, prefix: str = ""
) -> Iterator[tuple[str, str | None]]:
    """Yields the name and the text of each column, and of each value in an object."""
    for key, value in columns.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _named_texts(value, lists, location, f"{name}.")
        elif isinstance(value, list) and name in lists:
            texts = [_as_text(each) for each in value]
            if any("," in text for text in texts):
                raise InputError(f"{location} has {texts}; a comma separates labels, rename one")
            yield name, ",".join(texts)
        elif not isinstance(value, list):
            yield name, None if value is None else _as_text(value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def required_text(values: Mapping[str, str], column: str, *, location: str) -> str:
    """Returns the text of a column; raises InputError if it is empty."""
    if not values[column].strip():
        raise InputError(f"{location} has an empty {column}; expected a text")
    return values[column]


def is_tfds(path: StrPath) -> bool:
    """Returns whether a data path names a data set of TFDS instead of a file."""
    return os.fspath(path).startswith(PREFIX)


def tfds_files(data: StrPath) -> dict[str, str]:
    """Returns the path `tfds:NAME:SPLIT` of each split of `tfds:NAME` or `tfds:FOLDER`."""
    data = os.fspath(data)
    existing = _prepared_builder(data.removeprefix(PREFIX)).info.splits
    names = {"train": "train", "dev": "dev", "test": "test"}
    if "dev" not in existing:
        names["dev"] = "validation"
    return {split: f"{data}:{name}" for split, name in names.items() if name in existing}


def tfds_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of `tfds:NAME:SPLIT` in any order; an unknown class label (-1) is None."""
    name, _, split = path.removeprefix(PREFIX).rpartition(":")
    builder = _prepared_builder(name)
    import tensorflow_datasets as tfds

    features = builder.info.features
    for row in tfds.as_numpy(builder.as_dataset(split=split)):
        yield {column: _python_value(value, features[column]) for column, value in row.items()}


def _prepared_builder(name: str) -> Any:
    """Returns the builder of a data set, which it downloads if necessary."""
    require("tensorflow", what=f"{PREFIX}{name}")
    import tensorflow_datasets as tfds

    try:
        if os.path.isfile(os.path.join(name, "dataset_info.json")):
            return tfds.builder_from_directory(name)
        builder = tfds.builder(name)
        with contextlib.redirect_stdout(sys.stderr):
            builder.download_and_prepare()  # returns at once if the data is there
        return builder
    except Exception as error:  # each builder raises its own kinds of errors
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InputError(f"{PREFIX}{name} cannot be read or downloaded: {reason}") from error


def _python_value(value: Any, feature: Any) -> Any:
    """Converts an array or scalar of TFDS to lists, texts and numbers of Python."""
    inner = getattr(feature, "feature", None) or feature  # of a `tfds.features.Sequence`
    if isinstance(value, dict):
        return {name: _python_value(each, inner[name]) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [_python_value(each, inner) for each in value]
    if hasattr(feature, "int2str"):  # a `tfds.features.ClassLabel`
        return None if value < 0 else feature.int2str(int(value))
    return value.decode("utf-8") if isinstance(value, bytes) else value.item()
