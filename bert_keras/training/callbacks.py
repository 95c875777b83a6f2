"""Callbacks that show a run: TensorBoard's curves, a progress bar, the pace of the steps."""

import os
import time

import keras
import tensorflow as tf

from bert_keras.distribution.replicas import number
from bert_keras.progress import progress


class Pace:
    """The first step after `restart` may hold tracing or the end of an evaluation: it starts the
    clock and is not counted."""

    def __init__(self):
        self.restart()

    def restart(self) -> None:
        self.ends: tuple[float, ...] = ()  # of the first step and of the last, in seconds
        self.num_steps = 0

    def step(self) -> None:
        now = time.perf_counter()
        if self.ends:
            self.num_steps += 1
        self.ends = (*self.ends[:1], now)

    @property
    def steps_per_second(self) -> float:
        """0 before the second step."""
        return self.num_steps / (self.ends[-1] - self.ends[0]) if self.num_steps else 0.0


def tag(log_name: str) -> str:
    """Keras' name of a number as a tag: "masked_lm_accuracy" -> "accuracy/masked_lm"; one with a
    slash is a tag already: "val_score/f1" -> "score/f1".
    """
    name = log_name.removeprefix("val_")
    if "/" in name:
        return name
    *head, kind = name.split("_")
    return f"{kind}/{'_'.join(head) or 'total'}"


class TensorBoardLog(keras.callbacks.Callback):
    """Writes a point every `steps_per_point` steps, the mean over these, and one at the end of a
    Keras epoch, at the optimizer's step.

    `folder`/train gets loss/*, accuracy/*, optimizer/learning_rate, optimizer/gradient_norm (before
    clipping, of the last step), speed/examples_per_second and speed/tokens_per_second; and
    `folder`/held_out the same loss/* and accuracy/*, or score/*, where the run has held-out data.
    What callbacks before this one put into the logs of an epoch under a tag is written with them.
    `tokens_per_example` is the mean count of real (unpadded) tokens.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        *,
        batch_size: int,
        tokens_per_example: float,
        steps_per_point: int,
    ):
        super().__init__()
        self.folder = os.fspath(folder)
        self.batch_size = batch_size
        self.steps_per_point = steps_per_point
        self.tokens_per_example = tokens_per_example
        self.pace = Pace()
        self.writers: dict[str, tf.summary.SummaryWriter] = {}

    def on_epoch_begin(self, epoch, logs=None):
        self.pace.restart()

    def on_train_batch_end(self, batch, logs=None):
        self.pace.step()
        done = batch + 1
        if done % self.steps_per_point == 0 and done < self.params["steps"]:
            self._write_point(logs or {})
            self.model.reset_metrics()
            self.pace.restart()

    def on_epoch_end(self, epoch, logs=None):
        self._write_point(logs or {})

    def _write_point(self, logs: dict) -> None:
        optimizer = self.model.optimizer
        numbers = {tag(name): value for name, value in logs.items() if not name.startswith("val_")}
        numbers["optimizer/learning_rate"] = float(
            keras.ops.convert_to_numpy(optimizer.learning_rate)
        )
        numbers["optimizer/gradient_norm"] = number(optimizer.gradient_norm)
        if examples := self.pace.steps_per_second * self.batch_size:
            numbers["speed/examples_per_second"] = examples
            numbers["speed/tokens_per_second"] = examples * self.tokens_per_example
        self._write("train", numbers)
        held_out = {tag(name): value for name, value in logs.items() if name.startswith("val_")}
        if held_out:
            self._write("held_out", held_out)

    def on_train_end(self, logs=None):
        for writer in self.writers.values():
            writer.close()
        self.writers.clear()

    def _write(self, run: str, numbers: dict[str, float]) -> None:
        if run not in self.writers:
            self.writers[run] = tf.summary.create_file_writer(os.path.join(self.folder, run))
        with self.writers[run].as_default(step=number(self.model.optimizer.iterations)):
            for name, value in sorted(numbers.items()):
                tf.summary.scalar(name, value)
        self.writers[run].flush()


class ProgressBar(keras.callbacks.Callback):
    """One bar for the whole run, counting examples, with the newest means beside it, and of the
    scores the one called `metric`. The last batch of an epoch may be smaller than `batch_size`.
    """

    def __init__(
        self,
        *,
        stage: str,
        batch_size: int,
        steps_per_epoch: int,
        examples_per_epoch: int,
        num_steps: int,
        first_step: int,
        metric: str = "",
    ):
        super().__init__()
        self.shown = ("loss", "val_loss", f"val_score/{metric}")
        self.batch_size, self.step = batch_size, first_step
        self.steps_per_epoch, self.examples_per_epoch = steps_per_epoch, examples_per_epoch
        self.bar = progress(stage=stage, unit="examples", total=self._examples(num_steps))
        self.bar.update(self._examples(first_step))
        self.bar.unpause()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.bar.update(self._examples(self.step) - self.bar.n)

    def _examples(self, step: int) -> int:
        epochs, steps = divmod(step, self.steps_per_epoch)
        return epochs * self.examples_per_epoch + steps * self.batch_size

    def on_epoch_end(self, epoch, logs=None):
        shown = {
            name.replace("masked_lm", "mlm").replace("next_sentence", "nsp"): f"{value:.3f}"
            for name, value in (logs or {}).items()
            if name in self.shown or ("/" not in name and name.endswith("accuracy"))
        }
        self.bar.set_postfix(shown, refresh=False)
