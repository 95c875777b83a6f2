"""Scores a model after every epoch and keeps the best weights."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import keras
import numpy as np

from bert_keras.checkpoints.tensors import named_weights
from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError
from bert_keras.files import write_text
from bert_keras.training.states import unusable_error, write_arrays

HISTORY, BEST = "evaluations.json", "best.npz"
Evaluate = Callable[[], Mapping[str, float]]


class DivergedError(InputError):
    """Raised if the loss or gradients are not finite; the clause `reason` says which."""

    def __init__(self, reason: str):
        super().__init__(
            f"{reason}; start again in another output folder with a lower learning_rate"
        )
        self.reason = reason


class Evaluations(keras.callbacks.Callback):
    """Scores the model after every Keras epoch and keeps the weights with the highest `metric`.

    Writes evaluations.json, which has one object with `step` and scores for each epoch, and
    best.npz with the weights by name. Adds the scores to the logs as `val_loss` and
    `val_score/NAME`.

    Args:
        evaluate: Returns the scores of the current weights, and `loss` if there is one.
        metric: The name of the score to maximise.
        patience: The training ends after this many epochs without a better score; 0 means never.
    """

    def __init__(self, evaluate: Evaluate, *, metric: str, folder: Path, patience: int = 0):
        super().__init__()
        self.evaluate, self.metric, self.folder, self.patience = evaluate, metric, folder, patience
        self.history: list[dict[str, float]] = []
        if (folder / HISTORY).is_file():
            self.history = json.loads((folder / HISTORY).read_text(encoding="utf-8"))

    @property
    def best(self) -> dict[str, float]:
        """The evaluation with the best score; among equal ones the lowest loss, then the first."""
        return max(self.history, key=lambda each: (rank(each[self.metric]), -each.get("loss", 0.0)))

    @property
    def is_exhausted(self) -> bool:
        """Whether the last `patience` evaluations have not improved the best score."""
        if not self.history or not self.patience:
            return False
        return len(self.history) - 1 - self.history.index(self.best) >= self.patience

    def continue_from(self, step: int, *, num_epochs: int) -> None:
        """Removes the evaluations after a saved step, because a resumed run repeats them."""
        self.history = [scores for scores in self.history if scores["step"] <= step]
        if len(self.history) < num_epochs:
            raise unusable_error(self.folder / HISTORY, "is missing or incomplete")

    def on_epoch_end(self, epoch: int, logs: dict):  # Keras always passes logs
        scores, step = dict(self.evaluate()), int(self.model.optimizer.iterations.numpy())
        losses = {"training": logs["loss"]}
        if "loss" in scores:
            losses["dev"] = logs["val_loss"] = scores["loss"]
        for name, loss in losses.items():
            if not math.isfinite(loss):
                raise DivergedError(f"the {name} loss is {loss} at step {step:,}")
        if skipped := int(self.model.optimizer.skipped.numpy()):
            raise DivergedError(f"the gradients of {skipped:,} of {step:,} steps are not finite")
        logs |= {f"val_score/{name}": scores[name] for name in scores if name != "loss"}
        self.history.append({"step": step, **scores})
        if is_chief():
            if self.best is self.history[-1]:
                write_arrays(self.folder / BEST, named_weights(self.model))
            write_text(self.folder / HISTORY, json.dumps(self.history, indent=1) + "\n")
        if self.is_exhausted:
            self.model.stop_training = True

    def restore_best(self, model: keras.Model) -> None:
        """Loads the best weights into a model; raises InputError if they are missing."""
        if not (self.folder / BEST).is_file():
            raise unusable_error(self.folder / BEST, "is missing or incomplete")
        with np.load(self.folder / BEST) as arrays:
            for name, weight in named_weights(model).items():
                weight.assign(arrays[name])


def rank(score: float) -> float:
    """Returns a score for comparisons; NaN becomes minus infinity."""
    return -math.inf if math.isnan(score) else score
