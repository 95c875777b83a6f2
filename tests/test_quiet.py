"""TensorFlow is imported: what it prints stays unseen unless there is something amiss."""

import subprocess
import sys

import pytest

FAILS = """
import os
from bert_keras import quiet
import tensorflow as tf
def fails():
    os.write(2, b"a note of C++\\n")
    raise {error}
tf.config.list_logical_devices = fails
quiet.import_tensorflow()
"""
TRANSPOSES = """
from bert_keras.quiet import import_tensorflow
import_tensorflow()
import tensorflow as tf
tf.transpose([[True], [False]])
"""
WITHOUT = """
import sys
from bert_keras.quiet import import_tensorflow
import_tensorflow(without=("keras", "jax"))
assert not {"keras", "jax"} & set(sys.modules), "imported"
import tensorflow as tf
assert tf.keras.layers.Dense(2)(tf.ones([1, 3])).shape == (1, 2)
assert "keras" in sys.modules
"""


def printed(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True).stderr


@pytest.mark.slow
@pytest.mark.parametrize(("error", "is_told"), [("KeyboardInterrupt", False), ("OSError", True)])
def test_notes_are_told_with_an_error_alone(error, is_told):
    told = printed(FAILS.format(error=error))
    assert error in told and ("a note of C++" in told) == is_told


@pytest.mark.slow
def test_a_mask_brings_no_note():
    assert printed(TRANSPOSES) == ""


@pytest.mark.slow
def test_what_tensorflow_does_without_can_be_imported_later():
    assert printed(WITHOUT) == ""
