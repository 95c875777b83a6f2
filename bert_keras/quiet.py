"""Imports TensorFlow with oneDNN, without the hardware messages that its C++ code prints."""

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Collection, Iterator
from typing import Any

# Packages that Keras and TensorFlow import for functions that no command uses. Their import takes
# 0.7 s.
UNUSED = ("jax", "matplotlib", "sklearn")


def import_tensorflow(*, without: Collection[str] = ()) -> None:
    """Import TensorFlow and list its devices; show the messages only if an exception occurs.

    C++ code prints messages (CPU instructions, no CUDA driver found) before any log level applies.
    It prints another one when a bool tensor is transposed for the first time, as Keras' LSTM does
    with its mask. This function triggers both and hides them.

    It sets TF_ENABLE_ONEDNN_OPTS=1, if the variable is unset, for processors without AVX512-VNNI,
    on which TensorFlow would not use oneDNN.

    Args:
        without: Packages that TensorFlow must not find. It imports some optional packages, such as
            keras and jax, which takes seconds. The caller can still import them later.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    with hidden_messages(), _hidden(without), no_collection():
        import tensorflow as tf
        from absl import logging

        logging.set_verbosity(logging.ERROR)  # TensorFlow Datasets warns of its own calls
        # With several workers, the strategy must be created before any op runs.
        if "TF_CONFIG" not in os.environ:
            tf.config.list_logical_devices()
            tf.transpose(tf.constant([[True]]))
    gc.freeze()  # otherwise each complete collection takes 0.2 s longer


@contextlib.contextmanager
def hidden_messages() -> Iterator[None]:
    """Hide what is printed on stderr in the `with` block, unless an exception occurs."""
    # The C++ code of several workers prints errors of the connection, which Python reports too.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if "TF_CONFIG" in os.environ else "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), 2)
        try:
            yield
        except Exception:
            messages.seek(0)
            os.write(terminal, messages.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Switch Python's garbage collector off until the `with` block ends.

    The collector would traverse all objects of TensorFlow. This takes a tenth of the time of
    importing TensorFlow, and longer than loading a model.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _hidden(names: Collection[str]) -> Iterator[None]:
    """Make imports of these packages fail in the `with` block, unless already imported."""
    hidden: dict[str, Any] = {name: None for name in names if name not in sys.modules}
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
