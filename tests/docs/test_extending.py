"""Runs the Python blocks of each section of the extending page, in order, in an empty folder."""

import re
import sys
import types
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "extending.md"
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    if "```python" in section
}
TABLES = {  # to which examples add rows, by their modules
    "FAMILIES": "bert_keras.families",
    "PRETRAINING_TASKS": "bert_keras.runs.recipes",
    "TASKS": "bert_keras.downstream.catalog",
    "DESCRIPTIONS": "bert_keras.downstream.catalog",
}


@pytest.fixture(autouse=True)
def restored_tables():
    tables = [getattr(import_module(module), name) for name, module in TABLES.items()]
    before = [dict(table) for table in tables]
    yield
    for table, rows in zip(tables, before, strict=True):
        table.clear()
        table.update(rows)


SLOW = {"A task": pytest.mark.slow}


@pytest.mark.parametrize("title", [pytest.param(t, marks=SLOW.get(t, ())) for t in SECTIONS])
def test_the_example_runs(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)  # a row may name the module
    for block in SECTIONS[title]:
        assert block.count("\n") <= 60, "an example has at most 60 lines"
        exec(compile(block, f"{PAGE.name}: {title}", "exec"), module.__dict__)
