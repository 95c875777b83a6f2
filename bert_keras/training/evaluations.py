"""Scores a model after every epoch and keeps the best weights."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import keras

from bert_keras.checkpoints.safetensors_file import stored_tensors, write_tensors
from bert_keras.checkpoints.tensors import tensor
from bert_keras.distribution.replicas import number
from bert_keras.distribution.strategy import is_chief
from bert_keras.errors import InputError
from bert_keras.models.pretrained import named_weights, stored_weight
from bert_keras.storage import whole_file, write_text

HISTORY, BEST = "evaluations.json", "best.safetensors"
_ANEW = "remove the run's folder, or choose another, to train anew"


class Evaluations(keras.callbacks.Callback):
    """Calls `evaluate` at the end of every Keras epoch and keeps the weights of the best `metric`.

    In `folder`: evaluations.json, one object of `step` and scores an epoch, and best.safetensors.
    The scores go into the logs as `val_loss` and `val_score/NAME`, for the callbacks behind this
    one. `patience` ends the training after so many epochs without a better score; 0 never does.
    """

    def __init__(
        self,
        evaluate: Callable[[], Mapping[str, float]],
        *,
        metric: str,
        folder: Path,
        patience: int = 0,
    ):
        super().__init__()
        self.evaluate, self.metric = evaluate, metric
        self.folder, self.patience = folder, patience
        self.history: list[dict[str, float]] = []
        if (folder / HISTORY).is_file():
            self.history = self._read(folder / HISTORY)

    @property
    def best(self) -> dict[str, float]:
        """The first of the evaluations with the best score; a score that is no number is worst."""
        return max(self.history, key=self._rank)

    @property
    def exhausted(self) -> bool:
        """Whether the last `patience` evaluations brought nothing better."""
        since = len(self.history) - 1 - self.history.index(self.best) if self.history else 0
        return bool(self.patience) and since >= self.patience

    def go_on_from(self, step: int) -> None:
        """Forget what came after a step: it will be done again."""
        self.history = [scores for scores in self.history if scores["step"] <= step]

    def on_epoch_end(self, epoch, logs=None):
        scores, step = dict(self.evaluate()), number(self.model.optimizer.iterations)
        losses = {"training": (logs or {}).get("loss", 0.0), "dev": scores["loss"]}
        faults = [
            f"the {name} loss is {loss} at step {step:,}"
            for name, loss in losses.items()
            if not math.isfinite(loss)
        ]
        if skipped := number(self.model.optimizer.skipped):
            faults.append(f"the gradients of {skipped:,} of {step:,} steps are not finite")
        if faults:
            raise InputError(
                f"{faults[0]}: the training has diverged; begin anew with a lower learning_rate, "
                "in another output folder"
            )
        if logs is not None:
            logs["val_loss"] = scores["loss"]
            logs |= {f"val_score/{name}": scores[name] for name in scores if name != "loss"}
        self.history.append({"step": step, **scores})
        if is_chief():
            self._write()
        if self.exhausted:
            self.model.stop_training = True

    def restore_best(self, model: keras.Model) -> None:
        """Put the best weights into the model. Raises InputError where they are gone or damaged."""
        if not (self.history and (self.folder / BEST).is_file()):
            raise InputError(f"{self.folder} has lost its {HISTORY} or {BEST}; {_ANEW}")
        try:
            best = stored_tensors(self.folder / BEST)
        except InputError as error:  # which tells to copy it anew, and there is nothing to copy
            raise InputError(f"{self.folder / BEST} is damaged; {_ANEW}") from error
        for name, weight in named_weights(model).items():
            weight.assign(tensor(best[name].read()))

    def _write(self) -> None:
        if self.best is self.history[-1]:
            with whole_file(self.folder / BEST) as beside:
                weights = named_weights(self.model).items()
                write_tensors(beside, {name: stored_weight(weight) for name, weight in weights})
        write_text(self.folder / HISTORY, json.dumps(self.history, indent=1) + "\n")

    def _read(self, path: Path) -> list[dict[str, float]]:
        try:
            history = json.loads(path.read_text(encoding="utf-8"))
            for scores in history:
                float(scores["step"])
                self._rank(scores)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"{path} is not what this run wrote ({error!r}); {_ANEW}") from error
        return history

    def _rank(self, scores: Mapping[str, float]) -> float:
        return rank(scores[self.metric])


def rank(score: float) -> float:
    """A score to compare: what is no number is worse than all else."""
    return -math.inf if math.isnan(score) else score
