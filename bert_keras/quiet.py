"""TensorFlow imported without the hardware notes that it prints straight to the terminal."""

import os
import sys
import tempfile


def import_tensorflow() -> None:
    """`import tensorflow` and look for devices; what that prints is shown only if it fails.

    The notes (CPU instructions, no CUDA driver found) come from C++ before any log level holds.
    One is given with the first bools that are transposed, as Keras' LSTM does with its mask.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
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
