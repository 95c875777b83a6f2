"""What a training run shows while it runs: TensorBoard's curves and a progress bar."""

import os
import time

import keras
import tensorflow as tf

from bert_keras.progress import progress


def tag(log_name: str) -> str:
    """Keras' name of a number as a tag: "masked_lm_accuracy" -> "accuracy/masked_lm"."""
    *head, kind = log_name.removeprefix("val_").split("_")
    return f"{kind}/{'_'.join(head) or 'total'}"


class TensorBoardLog(keras.callbacks.Callback):
    """Writes one point a Keras epoch, the mean over its steps, at the optimizer's step.

    `folder`/train gets loss/*, accuracy/*, optimizer/learning_rate, optimizer/gradient_norm (before
    clipping, of the last step), speed/examples_per_second and speed/tokens_per_second; and
    `folder`/held_out the same loss/* and accuracy/* where the run has held-out data.
    `tokens_per_example` is the mean count of real (unpadded) tokens.
    """

    def __init__(self, folder: str | os.PathLike, *, batch_size: int, tokens_per_example: float):
        super().__init__()
        self.folder = os.fspath(folder)
        self.batch_size = batch_size
        self.tokens_per_example = tokens_per_example
        self.writers: dict[str, tf.summary.SummaryWriter] = {}

    def on_epoch_begin(self, epoch, logs=None):
        self.clock = None

    def on_train_batch_end(self, batch, logs=None):
        # The first step of an epoch may hold tracing or the end of an evaluation: start after it.
        if self.clock is None:
            self.clock, self.first = time.perf_counter(), batch
        self.last, self.now = batch, time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        logs = dict(logs or {})
        optimizer = self.model.optimizer
        numbers = {tag(name): value for name, value in logs.items() if not name.startswith("val_")}
        numbers["optimizer/learning_rate"] = float(optimizer.learning_rate)
        numbers["optimizer/gradient_norm"] = float(optimizer.gradient_norm)
        if self.last > self.first:
            examples = (self.last - self.first) * self.batch_size / (self.now - self.clock)
            numbers["speed/examples_per_second"] = examples
            numbers["speed/tokens_per_second"] = examples * self.tokens_per_example
        self._write("train", numbers)
        held_out = {tag(name): value for name, value in logs.items() if name.startswith("val_")}
        if held_out:
            self._write("held_out", held_out)

    def on_train_end(self, logs=None):
        for writer in self.writers.values():
            writer.close()

    def _write(self, run: str, numbers: dict[str, float]) -> None:
        if run not in self.writers:
            self.writers[run] = tf.summary.create_file_writer(os.path.join(self.folder, run))
        with self.writers[run].as_default(step=int(self.model.optimizer.iterations)):
            for name, value in sorted(numbers.items()):
                tf.summary.scalar(name, value)
        self.writers[run].flush()


class ProgressBar(keras.callbacks.Callback):
    """One bar for the whole run, counting examples, with the newest means beside it."""

    def __init__(self, *, stage: str, batch_size: int, num_steps: int, first_step: int):
        super().__init__()
        self.batch_size = batch_size
        self.bar = progress(stage=stage, unit="examples", total=num_steps * batch_size)
        self.bar.update(first_step * batch_size)
        self.bar.unpause()

    def on_train_batch_end(self, batch, logs=None):
        self.bar.update(self.batch_size)

    def on_epoch_end(self, epoch, logs=None):
        shown = {
            name.replace("masked_lm", "mlm").replace("next_sentence", "nsp"): f"{value:.3f}"
            for name, value in (logs or {}).items()
            if name.endswith("accuracy") or name in ("loss", "val_loss")
        }
        self.bar.set_postfix(shown, refresh=False)

    def on_train_end(self, logs=None):
        self.bar.close()
