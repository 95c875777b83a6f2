"""SIGTERM in, a saved state and an orderly end out."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import keras

from bert_keras.training.checkpoints import TrainingCheckpoints


class SaveOnTermination(keras.callbacks.Callback):
    """On SIGTERM, which a machine sends before it is taken away, the step is finished and the state
    saved; `fit` ends with SystemExit(143), as a shell tells of SIGTERM.
    """

    def __init__(self, checkpoints: TrainingCheckpoints):
        super().__init__()
        self.checkpoints = checkpoints
        self.asked = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Python lets the main thread alone listen; elsewhere SIGTERM ends the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def on_train_batch_end(self, batch, logs=None):
        if self.asked and batch + 1 < self.params["steps"]:  # else the epoch is ended first
            self._end()

    def on_epoch_end(self, epoch, logs=None):
        if self.asked:
            self._end()

    def _end(self) -> None:
        self.checkpoints.save()
        raise SystemExit(128 + signal.SIGTERM)

    def _note(self, number, frame) -> None:
        self.asked = True
