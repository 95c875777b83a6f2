"""Runs the examples in the docstrings of the public names on small models and data."""

import inspect
import re
import shutil

import pytest

import bert_keras
from bert_keras.models.pretrained import Pretrained

NAMES = {name: getattr(bert_keras, name) for name in bert_keras.__all__}
OBJECTS = NAMES | {"from_pretrained": Pretrained.from_pretrained}
WITHOUT = {"encode_masked"}  # its example is that of BertMaskedLM


def example(name: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", inspect.getdoc(OBJECTS[name]) or "", re.S)
    assert blocks, f"{name} has no example"
    return "\n".join(blocks)


def marked(name: str):
    """Marks the examples that export a model."""
    return pytest.param(name, marks=pytest.mark.slow) if "export" in name else name


@pytest.mark.parametrize("name", [marked(name) for name in OBJECTS if name not in WITHOUT])
def test_the_example_runs(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    shutil.rmtree("saved_models/film-critic", ignore_errors=True)
    exec(compile(example(name), name, "exec"), dict(NAMES))
