"""Checks a folder of prediction files and packs it into the zip that GLUE's server reads."""

import zipfile
from pathlib import Path

from bert_keras.downstream.glue.rows import ROWS, GlueRow
from bert_keras.downstream.table import read_numbered
from bert_keras.errors import InputError
from bert_keras.files import StrPath, atomic_file

HEADER = ("index", "prediction")
# The task of each prediction file.
FILES: dict[str, str] = {file: name for name, row in ROWS.items() for file in row.num_test_rows}


def submission_zip(folder: StrPath, path: StrPath) -> None:
    """Checks the eleven files, CoLA.tsv to AX.tsv, and packs them; the server expects all of them.

    Args:
        folder: The folder of the prediction files.
        path: The zip to write.

    Raises:
        InputError: Files are missing, or the server would refuse a line; the message names them.
    """
    folder = Path(folder)
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise InputError(
            f"{folder} has no {', '.join(missing)}; write them with bert-keras predict for "
            f"{', '.join(sorted({FILES[name] for name in missing}))} (MNLI-mm.tsv with --split "
            "test_mismatched, AX.tsv with --split ax)"
        )
    for name in FILES:
        _check(folder / name)
    with atomic_file(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            archive.write(folder / name, name)


def _check(path: Path) -> None:
    row = ROWS[FILES[path.name]]
    num_rows = row.num_test_rows[path.name]
    expected = "a number of 0 to 5" if row.kind == "number" else " or ".join(row.labels)
    for location, columns in read_numbered(path, header=HEADER, num_rows=num_rows):
        if len(columns) > 1 or not _is_valid(columns[0], row):
            raise InputError(f"{location} has {' '.join(columns)!r}; expected {expected}")


def _is_valid(prediction: str, row: GlueRow) -> bool:
    if row.kind != "number":
        return prediction in row.labels
    try:
        return 0.0 <= float(prediction) <= 5.0
    except ValueError:
        return False
