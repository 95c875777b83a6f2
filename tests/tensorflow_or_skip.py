"""TensorFlow and KerasHub; where they are not installed, a test that uses them is skipped."""

import importlib
from typing import Any

import pytest


class _Absent:
    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, _):
        pytest.skip(f"needs {self.name}", allow_module_level=True)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return _Absent(name)


tf, keras_hub = map(_module, ("tensorflow", "keras_hub"))
