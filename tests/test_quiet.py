"""Messages during the import of TensorFlow are hidden unless an error occurs."""

import platform
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
from bert_keras.quiet import UNUSED, import_tensorflow
import_tensorflow(without=("keras", *UNUSED))
assert not {"keras", *UNUSED} & set(sys.modules), "imported"
import tensorflow as tf
assert tf.keras.layers.Dense(2)(tf.ones([1, 3])).shape == (1, 2)
import sklearn
assert "keras" in sys.modules
"""
USES_ONE_DNN = """
from bert_keras.quiet import import_tensorflow
import_tensorflow()
from tensorflow.python.util import _pywrap_util_port
assert _pywrap_util_port.IsMklEnabled()
"""


def printed(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True).stderr


@pytest.mark.slow
@pytest.mark.parametrize(("error", "is_shown"), [("KeyboardInterrupt", False), ("OSError", True)])
def test_messages_are_shown_only_with_an_error(error, is_shown):
    message = printed(FAILS.format(error=error))
    assert error in message and ("a note of C++" in message) == is_shown


@pytest.mark.slow
def test_a_transposed_mask_prints_no_message():
    assert printed(TRANSPOSES) == ""


@pytest.mark.slow
def test_hidden_packages_can_be_imported_later():
    assert printed(WITHOUT) == ""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN is an option on x86 alone")
def test_tensorflow_uses_one_dnn_on_every_processor(monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    assert printed(USES_ONE_DNN) == ""
