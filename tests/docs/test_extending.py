"""Runs the Python blocks of each section of docs/extending.md, in order, in an empty folder."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
}


@pytest.mark.parametrize("title", SECTIONS)
def test_the_example_runs(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "example"}
    for block in SECTIONS[title]:
        assert block.count("\n") <= 60, "an example has at most 60 lines"
        exec(compile(block, f"{PAGE.name}: {title}", "exec"), namespace)
