"""The tables of the ablations page equal those of the reports and of the seeds' scores."""

import json
from pathlib import Path

import pytest

from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.page import Results, Score, write_page
from bert_keras.experiments.scales import SCALES

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks" / "archive"


def section(page: Path, heading: str) -> list[str]:
    """The rows under it without those of arms of equal time, which 0.3 no longer has."""
    text = page.read_text("utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("|") and "equal time" not in line]


@pytest.mark.parametrize("name", SCALES["small"].tables)
def test_what_came_out(name, tmp_path):
    folder, experiment = DOCS / "ablations" / name, EXPERIMENTS[name]
    cells = json.loads((folder / "results.json").read_text("utf-8"))["cells"]
    cells = [cell for cell in cells if "equal time" not in cell["arm"]]
    there = {cell["column"] for cell in cells}
    columns = tuple(column for column in experiment.columns if column.name in there)
    assert len(cells) == len(experiment.arms) * len(columns)
    scores = {
        (cell["arm"], cell["column"]): Score(
            tuple(cell["seeds"]), cell["learning_rate"], cell["degenerate"]
        )
        for cell in cells
    }
    results = Results(experiment=experiment, columns=columns, remarks=(), scores=scores)
    write_page(tmp_path, results)
    table = section(folder / "report.md", "Scores")
    assert table == section(tmp_path / "report.md", "Scores")
    page = (DOCS / "ablations-2026-11.md").read_text("utf-8")
    assert all(line in page for line in table)
