"""Runs code under Keras' JAX backend, in a process of its own."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

needs_jax = [
    pytest.mark.extra,
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None, reason='needs JAX: pip install "bert-keras[jax]"'
    ),
]

COMMANDS = """
import json
import sys

sys.modules["tensorflow"] = None
from bert_keras.cli import main

commands, code = json.loads(sys.argv[1])
for each in commands:
    assert main(each) == code, each
"""


def without_tensorflow(commands, *, start="", code=0, **environment):
    """Runs commands where TensorFlow cannot be imported, after the statements of `start`."""
    return under_jax(start + COMMANDS, json.dumps([commands, code]), **environment)


def under_jax(code, *arguments, **environment):
    environment = {**os.environ, "KERAS_BACKEND": "jax", **environment}
    command = [sys.executable, "-c", code, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stderr
