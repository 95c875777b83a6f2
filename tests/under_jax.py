"""Tests with the JAX backend, and commands in a process of their own without TensorFlow."""

import json
import os
import subprocess
import sys

import keras
import pytest

# The mark of tests for the session with this backend, which .ci/run starts.
with_jax = pytest.mark.skipif(keras.config.backend() != "jax", reason="runs with KERAS_BACKEND=jax")
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
    environment = {**os.environ, "KERAS_BACKEND": "jax", **environment}
    command = [sys.executable, "-c", start + COMMANDS, json.dumps([commands, code])]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stderr
