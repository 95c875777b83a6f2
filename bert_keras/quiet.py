"""TensorFlow imported without the hardware notes that it prints straight to the terminal."""

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Collection, Iterator


def import_tensorflow(*, without: Collection[str] = ()) -> None:
    """`import tensorflow` and look for devices; what that prints is shown only if it fails.

    The notes (CPU instructions, no CUDA driver found) come from C++ before any log level holds.
    One is given with the first bools that are transposed, as Keras' LSTM does with its mask.

    TensorFlow imports Keras and JAX, seconds of its start, where it finds them. It does not find
    those that are named in `without`; they can be imported later.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
            with _not_found(without), no_collection():
                import tensorflow as tf

            if "TF_CONFIG" not in os.environ:  # workers are made known before anything is computed
                tf.config.list_logical_devices()
                tf.transpose([[True]])
        except Exception:
            notes.seek(0)
            os.write(terminal, notes.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Python's collector would go through all of TensorFlow: a tenth of the time of importing it,
    and longer than a model takes to load."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def _not_found(names: Collection[str]) -> Iterator[None]:
    """Imports of these packages fail in the block, unless they were imported before."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
