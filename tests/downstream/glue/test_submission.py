"""The zip for the GLUE server contains eleven files in the expected format."""

import dataclasses
import zipfile

import pytest

from bert_keras.downstream.glue import submission
from bert_keras.downstream.glue.rows import ROWS
from bert_keras.downstream.glue.submission import submission_zip
from bert_keras.errors import InputError

HEADER = "index\tprediction\n"
OFFICIAL = ["AX.tsv", "CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "MRPC.tsv", "QNLI.tsv", "QQP.tsv",
            "RTE.tsv", "SST-2.tsv", "STS-B.tsv", "WNLI.tsv"]  # fmt: skip


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    """Two predictions in each of the files."""
    small = {
        name: dataclasses.replace(row, num_test_rows=dict.fromkeys(row.num_test_rows, 2))
        for name, row in ROWS.items()
    }
    monkeypatch.setattr(submission, "ROWS", small)
    for row in small.values():
        labels = ("0.000", "5.000") if row.kind == "number" else row.labels
        for file in row.num_test_rows:
            lines = ["index\tprediction", f"0\t{labels[0]}", f"1\t{labels[1]}"]
            (tmp_path / file).write_text("\n".join(lines) + "\n")
    (tmp_path / "notes.txt").touch()
    return tmp_path


def test_the_eleven_files_are_packed_unchanged(predictions, tmp_path):
    submission_zip(predictions, tmp_path / "out" / "glue.zip")
    with zipfile.ZipFile(tmp_path / "out" / "glue.zip") as archive:
        assert sorted(archive.namelist()) == OFFICIAL
        assert archive.read("STS-B.tsv") == b"index\tprediction\n0\t0.000\n1\t5.000\n"


def test_missing_files_are_named_with_their_tasks(predictions, tmp_path):
    for name in ("AX.tsv", "QQP.tsv"):
        (predictions / name).unlink()
    with pytest.raises(InputError, match=r"has no QQP.tsv, AX.tsv; write .* predict for mnli, qqp"):
        submission_zip(predictions, tmp_path / "glue.zip")
    assert not (tmp_path / "glue.zip").exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("RTE.tsv", "0\tentailment\n", r"RTE.tsv, line 1 is '0\\tentailment'; expected 'index"),
        ("RTE.tsv", f"{HEADER}0\t1\n1\t1\n", "line 2 has '1'; expected entailment or not_entail"),
        ("RTE.tsv", f"{HEADER}1\tentailment\n", r"RTE.tsv, line 2 is '1"),
        ("STS-B.tsv", f"{HEADER}0\t5.2\n1\t5\n", "line 2 has '5.2'; expected a number of 0 to 5"),
        ("STS-B.tsv", f"{HEADER}0\tx\n1\t5\n", r"STS-B.tsv, line 2"),
        ("STS-B.tsv", f"{HEADER}0\t4\t0.9\n1\t5\n", "line 2 has '4 0.9'; expected a number"),
        ("AX.tsv", f"{HEADER}0\tneutral\n", r"AX.tsv has 1 prediction; expected 2"),
        ("AX.tsv", "", r"AX.tsv has 0 predictions"),
    ],
)
def test_files_that_the_server_would_refuse_are_refused(predictions, tmp_path, name, text, message):
    (predictions / name).write_text(text)
    with pytest.raises(InputError, match=message):
        submission_zip(predictions, tmp_path / "glue.zip")
