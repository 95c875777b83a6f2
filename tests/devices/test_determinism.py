"""What no seed decides is refused on CPUs, unless the environment says otherwise."""

import subprocess
import sys

import pytest

DRAWS = """
import tensorflow as tf
from bert_keras.devices.determinism import add_in_one_order
add_in_one_order()
tf.random.normal([1])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("choice", "is_refused"), [(None, True), ("0", False)])
def test_the_choice_of_the_environment_counts(monkeypatch, choice, is_refused):
    monkeypatch.delenv("TF_DETERMINISTIC_OPS", raising=False)
    if choice:
        monkeypatch.setenv("TF_DETERMINISTIC_OPS", choice)
    done = subprocess.run([sys.executable, "-c", DRAWS], stderr=subprocess.PIPE, text=True)
    assert ("determinism is enabled" in done.stderr) == is_refused == bool(done.returncode)
