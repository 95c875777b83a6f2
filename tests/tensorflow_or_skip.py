"""TensorFlow and KerasHub; without them or with JAX, a test that uses them is skipped."""

import importlib
import os
from typing import Any

import pytest


class _Absent:
    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, name: str):
        if name.startswith("_"):  # pytest asks for such names when it collects tests
            raise AttributeError(name)
        pytest.skip(f"needs {self.name}", allow_module_level=True)


def _module(name: str) -> Any:
    if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        return _Absent("the TensorFlow backend")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return _Absent(name)


tf, keras_hub = map(_module, ("tensorflow", "keras_hub"))
needs_tensorflow = pytest.mark.skipif(isinstance(tf, _Absent), reason="needs tensorflow")
