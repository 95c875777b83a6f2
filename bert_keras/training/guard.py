"""Callbacks that stop a run with invalid gradients or an exploding loss, or warn about its data."""

import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from bert_keras.distribution.replicas import scalar_value
from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError, counted
from bert_keras.files import atomic_folder
from bert_keras.training.checkpoints import TrainingCheckpoints

MAX_LOSS_RATIO = 2.0  # ratio of the loss to the lowest loss at which the run stops


class Guard(keras.callbacks.Callback):
    """Stops `fit` with InputError after non-finite gradients or an exploding loss.

    At the end of every Keras epoch it checks whether more than `max_skipped` steps of the epoch had
    gradients that are not finite, and whether the mean loss is over twice the lowest of all earlier
    epochs.

    A step with non-finite gradients changes no weight (see `BertOptimizer`), so the state is saved
    and the same run can continue after it. After an exploding loss the state is not saved. In both
    cases `folder`/step-N/ contains batch.npz, the batch of the step, and
    weights.tsv, the norm of every weight and of its gradient on that batch without dropout, at the
    time of the stop.

    Args:
        checkpoints: Saves the state.
        make_batches: Creates the training data; the first batch is that of step `first_step`.
        first_step: The step of the first batch.
        folder: The folder for the reports.
        max_skipped: The allowed number of steps with non-finite gradients per epoch.
    """

    def __init__(
        self,
        checkpoints: TrainingCheckpoints,
        make_batches: Callable[[], tf.data.Dataset],
        first_step: int,
        folder: Path,
        *,
        max_skipped: int,
    ):
        super().__init__()
        self.checkpoints, self.make_batches, self.folder = checkpoints, make_batches, folder
        self.first_step, self.max_skipped = first_step, max_skipped
        self.lowest = math.inf

    def on_train_begin(self, logs=None):
        self.num_skipped = scalar_value(self.model.optimizer.skipped)

    def on_epoch_end(self, epoch, logs=None):
        optimizer, loss = self.model.optimizer, (logs or {}).get("loss", math.nan)
        step = scalar_value(optimizer.iterations)
        skipped = scalar_value(optimizer.skipped) - self.num_skipped
        self.num_skipped += skipped
        if skipped > self.max_skipped:
            bad = scalar_value(optimizer.last_skipped)
            self.checkpoints.save()
            raise InputError(
                f"the gradients of {counted(skipped, 'step')} are not finite, the last at step "
                f"{bad:,}; such a step changes no weight, and the state of step {step:,} is saved: "
                f"look at {self._write(bad)}, then continue with the same command, or start again "
                "in another output folder, with a lower learning_rate or max_skipped above 0"
            )
        if loss > MAX_LOSS_RATIO * self.lowest:
            raise InputError(
                f"the loss has exploded: its mean over the steps up to {step:,} is {loss:.4g}, its "
                f"lowest mean was {self.lowest:.4g}; this state is not saved: look at "
                f"{self._write(step - 1)} and start again in another output folder, with a lower "
                "learning_rate or a longer warmup"
            )
        self.lowest = min(loss, self.lowest) if math.isfinite(loss) else self.lowest

    def _write(self, step: int) -> Path:
        folder = self.folder / f"step-{step}"
        if is_chief() and not folder.exists():
            batch = next(iter(self.make_batches().skip(step - self.first_step).take(1)))
            arrays: dict[str, Any] = {  # names such as "x.input_ids"
                ".".join((("x", "y", "weight")[part], *name)): array.numpy()
                for (part, *name), array in keras.tree.flatten_with_path(batch)
            }
            with atomic_folder(folder) as part:
                np.savez_compressed(part / "batch.npz", **arrays)
                (part / "weights.tsv").write_text(self._norms(batch), encoding="utf-8")
        return folder

    def _norms(self, batch) -> str:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        weights = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.model.compute_loss(x, y, self.model(x, training=False), sample_weight)
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        rows = [f"weight\tshape\tnorm\tgradient norm, at loss {float(loss):.6g}"]
        for weight, gradient in zip(weights, gradients, strict=True):
            norm = float(tf.norm(weight.value))
            slope = 0.0 if gradient is None else float(tf.norm(tf.convert_to_tensor(gradient)))
            rows.append(f"{weight.path}\t{tuple(weight.shape)}\t{norm:.6g}\t{slope:.6g}")
        return "\n".join(rows) + "\n"


class PretrainingWarnings(keras.callbacks.Callback):
    """Warns once about each of two problems of a pretraining that the logs of a Keras epoch show.

    If the next-sentence accuracy reaches 0.995 within the first twentieth of `num_steps`, the pairs
    reveal their label. If the masked-LM loss is not at least 1 % below the unigram loss after a
    fifth of the steps and twice the warmup, the model does not use the context.

    Args:
        num_steps: The number of steps of the schedule.
        num_warmup_steps: The number of warmup steps.
        unigram: Returns the unigram loss in nats. It is called at most once.
    """

    def __init__(self, *, num_steps: int, num_warmup_steps: int, unigram: Callable[[], float]):
        super().__init__()
        self.num_steps, self.unigram = num_steps, functools.cache(unigram)
        self.patience = max(num_steps / 5, 2 * num_warmup_steps)
        self.warned: set[str] = set()

    def on_epoch_end(self, epoch, logs: dict):  # Keras always passes logs
        if not is_chief():
            return
        step = scalar_value(self.model.optimizer.iterations)
        accuracy = logs.get("next_sentence_accuracy", 0.0)
        if accuracy >= 0.995 and step <= max(self.num_steps // 20, self.params["steps"]):
            self._warn(
                "pairs",
                f"next-sentence accuracy is {accuracy:.3f} after {step:,} steps: the pairs reveal "
                "their label; look at some with bert-tfrecords show",
            )
        loss = logs.get("masked_lm_loss", logs["loss"])
        if step >= self.patience and "unigram" not in self.warned and loss > 0.99 * self.unigram():
            self._warn(
                "unigram",
                f"masked-LM loss is {loss:.3f} after {step:,} steps, and the word frequencies "
                f"alone give {self.unigram():.3f}: the model does not use the context yet; try "
                "another learning_rate, a longer warmup or another initializer_stddev",
            )

    def _warn(self, problem: str, text: str) -> None:
        if problem not in self.warned:
            self.warned.add(problem)
            tqdm.write(f"WARNING: {text}", file=sys.stderr)
