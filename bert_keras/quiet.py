"""Imports TensorFlow without the hardware notes that it prints straight to the terminal."""

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Collection, Iterator
from typing import Any


def import_tensorflow(*, without: Collection[str] = ()) -> None:
    """Import tensorflow and look for devices; show what that prints only if it fails.

    C++ prints the notes (CPU instructions, no CUDA driver found) before any log level applies. It
    prints one more when the first bools are transposed, as Keras' LSTM does with its mask.

    Args:
        without: Packages that TensorFlow imports where it finds them, which takes seconds (keras,
            jax). It does not find these; they can be imported later.
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
                tf.transpose(tf.constant([[True]]))
        except Exception:
            notes.seek(0)
            os.write(terminal, notes.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Switch Python's garbage collector off: it would traverse all of TensorFlow, which takes a
    tenth of the time of importing it, and longer than a model takes to load."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def _not_found(names: Collection[str]) -> Iterator[None]:
    """Let imports of these packages fail in the block, unless they were imported before."""
    hidden: dict[str, Any] = {name: None for name in names if name not in sys.modules}
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
