"""Runs code under Keras' JAX backend, in a process of its own."""

import importlib.util
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


def under_jax(code, *arguments, **environment):
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "KERAS_BACKEND": "jax", **environment},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stderr
