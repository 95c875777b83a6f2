"""Runs the examples in the docstrings of the public names on small models and data."""

import asyncio
import dataclasses
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import bert_keras
from bert_keras.models.pretrained import Pretrained

OBJECTS = {name: getattr(bert_keras, name) for name in bert_keras.__all__}
OBJECTS |= {"from_pretrained": Pretrained.from_pretrained, "model.export": Pretrained.export}
USED = OBJECTS | {"asyncio": asyncio, "Path": Path, "dataclasses": dataclasses, "np": np}
SLOW = {
    *("TaskRun", "finetune", "pretrain", "export", "model.export"),
    *("serve", "running_server", "Client", "read_curves"),
}
WITHOUT = {"encode_masked"}  # BertMaskedLM has its example


def documentation(name: str) -> str:
    if name not in ("tasks", "recipes"):
        return inspect.getdoc(OBJECTS[name]) or ""
    # The docstring of a constant follows its annotation.
    source = inspect.getsource(bert_keras)
    return inspect.cleandoc(re.search(rf'    {name}: [^\n]*\n    """(.*?)"""', source, re.S)[1])


def example(name: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", documentation(name), re.S)
    assert blocks, f"{name} has no example"
    return "\n".join(blocks)


NAMED = {name: [pytest.mark.slow] * (name in SLOW) for name in OBJECTS if name not in WITHOUT}


@pytest.mark.parametrize("name", [pytest.param(n, marks=marks) for n, marks in NAMED.items()])
def test_the_example_runs(name, folder, monkeypatch):
    Path("film-critic").rename("films")  # as the quickstart writes it
    if name == "serve":
        monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    if name == "BertTokenClassifier":  # BertClassifier traces the same steps
        monkeypatch.setattr("keras.Model.run_eagerly", property(lambda _: True, lambda *_: None))
    exec(compile(example(name), name, "exec"), dict(USED))


@pytest.mark.parametrize("name", ["FinetuneRecipe", "PretrainRecipe", "RunResult"])
def test_the_docstring_of_a_dataclass_describes_each_field(name):
    kind = getattr(bert_keras, name)
    for field in dataclasses.fields(kind):
        assert re.search(rf"^ +{field.name}: \S", kind.__doc__, re.MULTILINE), field.name
