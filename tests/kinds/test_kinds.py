"""The kinds of models load without Keras and name existing model classes."""

import subprocess
import sys
from importlib import import_module

import pytest

from bert_keras.kinds.known import KINDS

IMPORT_ALL = """
import pkgutil, sys
from importlib import import_module
import bert_keras.kinds
for module in pkgutil.iter_modules(bert_keras.kinds.__path__, "bert_keras.kinds."):
    import_module(module.name)
print(*{"keras", "tensorflow"} & {*sys.modules})
"""


def test_kinds_load_neither_keras_nor_tensorflow():
    assert subprocess.check_output([sys.executable, "-c", IMPORT_ALL], text=True).strip() == ""


@pytest.mark.parametrize("name", KINDS)
def test_kinds_name_their_model(name):
    assert getattr(import_module(KINDS[name].module), name).kind is KINDS[name]
