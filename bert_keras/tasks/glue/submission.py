"""A folder of prediction files in, the zip that GLUE's server takes out."""

import os
import zipfile
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.storage import text_lines, whole_file
from bert_keras.tasks.glue.rows import ROWS, GlueRow

HEADER = "index\tprediction"
FILES: dict[str, str] = {file: name for name, row in ROWS.items() for file in row.num_test_rows}


def submission_zip(folder: str | os.PathLike, path: str | os.PathLike) -> None:
    """Pack the eleven files, CoLA.tsv to AX.tsv, each checked: the server expects all of them.

    Raises InputError that names the files missing, and a file or line that it would refuse.
    """
    folder = Path(folder)
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise InputError(
            f"{folder} has no {', '.join(missing)}; write them with bert-keras predict, "
            f"{', '.join(sorted({FILES[name] for name in missing}))}"
        )
    for name in FILES:
        _check(folder / name)
    with whole_file(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            archive.write(folder / name, name)


def _check(path: Path) -> None:
    row = ROWS[FILES[path.name]]
    number = 0
    for number, line in enumerate(text_lines(path), start=1):
        index, tab, prediction = line.partition("\t")
        if number == 1:
            is_right = line == HEADER
        else:
            is_right = tab and index == str(number - 2) and _is_answer(prediction, row)
        if not is_right:
            answer = "a number of 0 to 5" if row.kind == "number" else " or ".join(row.labels)
            expected = HEADER if number == 1 else f"{number - 2}\t{answer}"
            raise InputError(f"{path}, line {number} is {line[:60]!r}; expected {expected!r}")
    expected = row.num_test_rows[path.name]
    if number != expected + 1:
        raise InputError(
            f"{path} has {max(number - 1, 0)} predictions; the test set has {expected} rows"
        )


def _is_answer(prediction: str, row: GlueRow) -> bool:
    if row.kind != "number":
        return prediction in row.labels
    try:
        return 0.0 <= float(prediction) <= 5.0
    except ValueError:
        return False
