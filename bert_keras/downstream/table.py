"""Reads tables of texts: TSV, CSV, JSON and TFDS."""

import contextlib
import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.errors import LARGEST_COUNT, InputError, counted, quoted, require
from bert_keras.files import StrPath, existing_file, text_lines

PREFIX = "tfds:"
WITH_HEADER = (".csv", ".tsv", ".txt")
Names = Sequence[str]
Row = tuple[str, dict[str, Any]]  # the location, for error messages, and the texts by column
Lines = Iterable[tuple[str, list[str]]]  # the location and the fields of each line


def table_rows(
    path: StrPath,
    *,
    columns: Sequence[str] | Mapping[str, Sequence[str]],
    headerless: Sequence[str] = (),
    skips_broken: bool = False,
    lists: Sequence[str] = (),
    keeps_blank: bool = False,
) -> Iterator[Row]:
    """Yields the rows of a table, as ("FILE, line N", values) with at least the named columns.

    A `.tsv` or `.txt` file has tabs, a header line and no quoting, like GLUE's files. A `.csv` file
    has double quotes, and commas, semicolons, tabs or `|` between its columns. Numbers and booleans
    of JSON become text, and the column `a.b` is the value `b` of an object `a`, as in KLUE's files.

    Args:
        path: A `.tsv`, `.txt`, `.csv`, `.jsonl` or `.json` file, or `tfds:NAME:SPLIT`.
        columns: The columns that each row must have, or a dict from a task's setting to columns.
        headerless: The column names of a file without a header line. If the first line contains all
            names of `columns`, it is still a header.
        skips_broken: Whether rows with a wrong number of columns are skipped and counted on stderr.
        lists: Columns of JSON and TFDS that may be lists; their texts are joined by commas.
        keeps_blank: Whether blank rows are not skipped, and blank lines between wider rows refused.
    """
    settings = columns if isinstance(columns, Mapping) else {}
    names = list(chain(*settings.values())) if settings else list(columns)
    suffix = Path(path).suffix
    if is_tfds(path):
        objects = enumerate(tfds_rows(os.fspath(path)), start=1)
        rows = _object_rows(((f"{path}, row {n}", each) for n, each in objects), lists)
    elif suffix in (".jsonl", ".json"):
        rows = _object_rows(_json_objects(path), lists)
    elif suffix in WITH_HEADER:
        lines = ((f"{path}, line {n}", s.split("\t")) for n, s in enumerate(text_lines(path), 1))
        lines = _csv_lines(path, names) if suffix == ".csv" else lines
        rows = _rows_below_header(lines, names, headerless, skips_broken, keeps_blank)
    else:
        raise InputError(f"{path} is not a .tsv, .txt, .csv, .jsonl or .json file; rename it")
    location = ""
    for location, values in rows:
        if missing := [name for name in names if values.get(name) is None]:
            where = path if suffix in WITH_HEADER else location
            existing = ", ".join(map(quoted, values)) or "none"
            options = " ".join(f"{setting}=NAME" for setting, each in settings.items() if each)
            hint = "a table of your own needs the task classification"
            hint = f"name yours: --set {options} (changes= in Python)" if settings else hint
            found = f"no column {missing[0]!r}, only {existing}; {hint}"
            if missing[0] in values:
                where, found = location, f"null in the column {missing[0]!r}; expected a text"
            raise InputError(f"{where} has {found}")
        yield location, values
    if not location:
        raise InputError(f"{path} has no rows; expected one or more, below a header except in JSON")


def _csv_lines(path: StrPath, columns: Sequence[str]) -> Lines:
    """Yields the lines, divided by the separator that gives the header the most known columns."""
    header = next(iter(text_lines(path)), "")
    splits = {mark: next(csv.reader([header], delimiter=mark), []) for mark in ",;\t|"}
    delimiter = max(splits, key=lambda m: (len(set(columns) & set(splits[m])), len(splits[m])))
    num_before = int(len(header) == 5 and header.startswith("sep="))  # a line for Excel
    delimiter = header[-1] if num_before else delimiter
    lines = (f"{line}\n" for line in islice(text_lines(path), num_before, None))
    csv.field_size_limit(LARGEST_COUNT)
    reader, start = csv.reader(lines, delimiter=delimiter, strict=True), num_before + 1
    try:
        for fields in reader:
            yield f"{path}, line {reader.line_num + num_before}", fields
            start = reader.line_num + num_before + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {start} is not CSV ({error}); close its quotes") from error


def _rows_below_header(
    lines: Lines, columns: Names, headerless: Names, skips_broken: bool, keeps_blank: bool
) -> Iterator[Row]:
    header: Sequence[str] | None = None
    skipped, blank, twins = [], "", []
    for location, fields in lines:
        fields = fields or [""]  # csv yields no field for a blank line
        if header is None:
            is_row = headerless and not set(columns) <= set(fields)
            header = headerless if is_row else fields
            twins = [name for name in header if name and header.count(name) > 1]
            if not is_row:
                continue
        has_width = len(fields) == len(header)
        if not any(fields) and not (keeps_blank and has_width):
            blank = location if keeps_blank else ""
        elif has_width and not blank and not twins:
            yield location, dict(zip(header, fields, strict=True))
        elif skips_broken:
            skipped.append(location)
        else:
            widths = f"{counted(1 if blank else len(fields), 'column')}, the header {len(header)}"
            hint = "in a .csv file, quote texts that contain the separator"
            hint = f"two columns are {twins[0]!r}, rename one" if twins else hint
            raise InputError(f"{blank or location} has {widths}; {hint}")
    if skipped:
        rows = counted(len(skipped), "row")
        print(f"skipped {rows} of another width; the first is {skipped[0]}", file=sys.stderr)


def _json_objects(path: StrPath) -> Iterator[tuple[str, Any]]:
    """Yields the location and the value of each item of a .json list or line of a .jsonl file."""
    if Path(path).suffix == ".json":
        items = parse_json(existing_file(path).read_bytes(), location=os.fspath(path))
        yield from ((f"{path}, item {n}", item) for n, item in enumerate(items, start=1))
        return
    for n, line in enumerate(text_lines(path), start=1):
        if line.strip():
            location = f"{path}, line {n}"
            yield location, parse_json(line, location=location)


def parse_json(text: str | bytes, *, location: str) -> Any:
    """Returns the values of a JSON text; raises InputError, which names `location`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{location} is not valid JSON: {error}") from error


def _object_rows(objects: Iterable[tuple[str, Any]], lists: Names) -> Iterator[Row]:
    for location, each in objects:
        # A value that is not an object has no columns.
        item = each if isinstance(each, dict) else {}
        yield location, dict(_named_texts(item, lists, location))


def _named_texts(item: dict, lists: Names, location: str, prefix: str = "") -> Iterator[tuple]:
    for name, value in item.items():
        name = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _named_texts(value, lists, location, f"{name}.")
        elif isinstance(value, list) and name in lists:
            texts = list(map(_text, value))
            if "," in "".join(texts):
                raise InputError(f"{location} has {texts}; a comma separates labels, rename one")
            yield name, ",".join(texts)
        elif not isinstance(value, list):
            yield name, None if value is None else _text(value)


def _text(value: Any) -> str:
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
    names = (("train", "train"), ("dev", "validation"), ("dev", "dev"), ("test", "test"))
    existing = _prepared_builder(data.removeprefix(PREFIX)).info.splits
    return {split: f"{data}:{name}" for split, name in names if name in existing}


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
    inner = getattr(feature, "feature", None)
    if isinstance(value, dict):
        parts = inner or feature
        return {name: _python_value(each, parts[name]) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [_python_value(each, inner or feature) for each in value]
    if hasattr(feature, "int2str"):
        return None if value < 0 else feature.int2str(int(value))
    return value.decode("utf-8") if isinstance(value, bytes) else value.item()
