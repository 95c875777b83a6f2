"""Keras callbacks that write TensorBoard curves and show a progress bar."""

import time
from dataclasses import dataclass
from pathlib import Path

import keras
from tqdm import tqdm

from bert_keras.distribution.strategy import is_chief
from bert_keras.training.tensorboard import EventFile


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Settings of `fit_resumable`: the length of the training, the saved states and the logs."""

    stage: str  # name of the run on the progress bar
    output: Path  # folder for checkpoints/ and logs/
    num_steps: int  # the run ends at this step of the optimizer
    steps_per_epoch: int  # steps of a Keras epoch; the last epoch may be shorter
    epochs_per_checkpoint: int  # epochs between two saved states and two held-out scores
    keep_checkpoints: int  # number of newest states to keep
    batch_size: int  # rows of the global batch
    tokens_per_example: float  # mean number of tokens without padding, for the speed curve
    flops_per_example: int = 0  # forward and backward, for the curve of model FLOPs; 0 omits it
    examples_per_epoch: int | None = None  # on the progress bar; None counts whole batches
    points_per_epoch: int = 1  # points on the TensorBoard curves per epoch
    max_skipped: int | None = None  # argument of Guard, or None to train without it


def tag(log_name: str) -> str:
    """Returns the TensorBoard tag of a Keras log: "masked_lm_accuracy" -> "accuracy/masked_lm".

    A log name with a slash is already a tag; only its prefix "val_" is removed.
    """
    name = log_name.removeprefix("val_")
    if "/" in name:
        return name
    *output, quantity = name.split("_")
    return f"{quantity}/{'_'.join(output) or 'total'}"


class TensorBoardLog(keras.callbacks.Callback):
    """Writes `points_per_epoch` points per epoch to TensorBoard; only the first worker does this.

    A point is the mean over the steps since the preceding point, at the step of the optimizer.
    logs/train contains loss/*, accuracy/*, speed/*, optimizer/learning_rate and
    optimizer/gradient_norm (last step, before clipping). logs/held_out contains the logs "val_*".
    """

    def __init__(self, settings: FitSettings):
        super().__init__()
        self.settings = settings
        self.steps_per_point = -(-settings.steps_per_epoch // settings.points_per_epoch)
        self.files: dict[str, EventFile] = {}

    def on_epoch_begin(self, epoch: int, logs: dict | None = None):
        self.num_steps = 0  # steps since the last point

    def on_train_batch_end(self, batch: int, logs: dict | None = None):
        is_last = batch + 1 == self.params["steps"] or self.model.stop_training
        is_point = is_last or (batch + 1) % self.steps_per_point == 0
        self.num_steps += 1
        if self.num_steps == 1 or is_point:
            wait_for(logs)
            self.end = time.perf_counter()
        if self.num_steps == 1:
            self.start = self.end  # the second step starts when the first one ends
        if is_point and not is_last:
            synchronize(self.model)
            self._write_point(logs or {})
            self.model.reset_metrics()
            self.num_steps = 0

    def on_epoch_end(self, epoch: int, logs: dict | None = None):
        self._write_point(logs or {})

    def _write_point(self, logs: dict) -> None:
        optimizer, runs = self.model.optimizer, {"train": self._compute_speed(), "held_out": {}}
        for name, value in logs.items():
            runs["held_out" if name.startswith("val_") else "train"][tag(name)] = value
        rate = keras.ops.convert_to_numpy(optimizer.learning_rate)
        runs["train"]["optimizer/learning_rate"] = rate
        runs["train"]["optimizer/gradient_norm"] = optimizer.gradient_norm.numpy()
        for run, values in runs.items() if is_chief() else ():
            if values and run not in self.files:
                self.files[run] = EventFile(self.settings.output / "logs" / run)
            if values:
                self.files[run].scalars(values, step=int(optimizer.iterations.numpy()))

    def _compute_speed(self) -> dict[str, float]:
        # The first step may include tracing or an evaluation.
        if self.num_steps < 2:
            return {}
        examples = (self.num_steps - 1) / (self.end - self.start) * self.settings.batch_size
        per_example = {"examples": 1, "tokens": self.settings.tokens_per_example}
        if self.settings.flops_per_example:
            per_example["model_flops"] = self.settings.flops_per_example
        return {f"speed/{unit}_per_second": examples * n for unit, n in per_example.items()}

    def on_train_end(self, logs: dict | None = None):
        for file in self.files.values():
            file.close()
        self.files.clear()


def wait_for(logs: dict | None) -> None:
    """Waits until the step that computes `logs` has ended."""
    for value in (logs or {}).values():
        keras.ops.convert_to_numpy(value)


def synchronize(model: keras.Model) -> None:
    """Updates the variables of a model within an epoch, which Keras' JAX trainer does not do."""
    if keras.config.backend() == "jax":
        model.jax_state_sync()


class ProgressBar(keras.callbacks.Callback):
    """Shows one bar for the run: the epoch or step, the newest held-out score, and the loss."""

    def __init__(self, settings: FitSettings, first_step: int, *, metric: str):
        super().__init__()
        self.settings, self.step = settings, first_step
        score = {f"val_score/{metric}": metric} if metric else {"val_loss": "held-out loss"}
        self.titles = {**score, "loss": "loss"}  # name of a log -> its title on the bar
        self.values: dict[str, float] = {}  # the newest value of each of these logs
        self.bar = tqdm(
            desc=self._description(),
            total=self._examples(settings.num_steps),
            initial=self._examples(first_step),
            unit=" rows",
            bar_format="{desc} |{bar}| {remaining} left, {rate_noinv_fmt}",
        )

    def on_train_batch_end(self, batch: int, logs: dict | None = None):
        self.step += 1
        self.bar.set_description_str(self._description(), refresh=False)
        self.bar.update(self._examples(self.step) - self.bar.n)

    def on_epoch_end(self, epoch: int, logs: dict | None = None):
        self.values |= {name: logs[name] for name in self.titles if logs and name in logs}

    def _description(self) -> str:
        """Returns a text such as "fine-tune epoch 2/4, accuracy 0.871, loss 0.412"."""
        unit, size = "step", 1
        if self.settings.examples_per_epoch is not None:
            unit, size = "epoch", self.settings.steps_per_epoch
        now, total = (-(-max(1, n) // size) for n in (self.step, self.settings.num_steps))
        values = [f"{self.titles[n]} {self.values[n]:.3f}" for n in self.titles if n in self.values]
        return ", ".join([f"{self.settings.stage} {unit} {now:,}/{total:,}", *values])

    def _examples(self, step: int) -> int:
        """Returns the examples up to a step. The last batch of an epoch may be smaller."""
        settings = self.settings
        if settings.examples_per_epoch is None:
            return step * settings.batch_size
        epochs, steps = divmod(step, settings.steps_per_epoch)
        return epochs * settings.examples_per_epoch + steps * settings.batch_size
