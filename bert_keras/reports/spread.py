"""Computes median, spread and best of the runs of a task with several seeds and learning rates."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bert_keras.training.evaluations import rank


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """A run that has ended."""

    folder: str
    learning_rate: float
    seed: int
    scores: dict
    degenerate: str = ""  # why the run failed, "" where it did not


@dataclass(frozen=True, kw_only=True)
class OneRate:
    """The metric over the runs with one learning rate; one run has no standard deviation."""

    learning_rate: float
    median: float
    best: float
    worst: float
    standard_deviation: float | None
    runs: int
    degenerate: int


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The runs of a study that have ended."""

    metric: str  # more is better
    planned: int  # runs of the whole study
    runs: tuple[OneRun, ...]

    @property
    def rates(self) -> tuple[OneRate, ...]:
        """Each learning rate, in the order of the runs."""
        rates = dict.fromkeys(run.learning_rate for run in self.runs)
        return tuple(self._rate(rate) for rate in rates)

    @property
    def best_rate(self) -> OneRate:
        """The learning rate with the best median."""
        return max(self.rates, key=lambda rate: rate.median)

    @property
    def best_run(self) -> OneRun:
        """The run with the best score of all learning rates."""
        return max(self.runs, key=self.score)

    def score(self, run: OneRun) -> float:
        """The metric of a run, for comparisons: the lowest where it is not a number."""
        return rank(run.scores[self.metric])

    def _rate(self, learning_rate: float) -> OneRate:
        runs = [run for run in self.runs if run.learning_rate == learning_rate]
        scores = [self.score(run) for run in runs]
        return OneRate(
            learning_rate=learning_rate,
            median=statistics.median(scores),
            best=max(scores),
            worst=min(scores),
            standard_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
            runs=len(runs),
            degenerate=sum(bool(run.degenerate) for run in runs),
        )


def degenerate(scores: Mapping[str, float], *, metric: str, losses: Sequence[float]) -> str:
    """Why a run failed, as a sentence; "" where it did not.

    It failed where its score is no better than that of the majority answer (Mosbach et al. 2021,
    "On the Stability of Fine-tuning BERT", after Dodge et al. 2020), where its training loss did
    not fall from the first to the second half, or where either is no number. `scores` hold that of
    the majority answer for `metric` or a part of it, "majority_accuracy" for "accuracy_and_f1";
    without it is 0, as it is in MCC, correlations, and F1 of entities and answers. `losses` are the
    logged ones.
    """
    if not math.isfinite(scores[metric]) or not all(map(math.isfinite, losses)):
        return "its score or its loss is not a number"
    parts = [name for name in (metric, *metric.split("_and_")) if f"majority_{name}" in scores]
    for name in parts or [metric]:
        score, majority = scores[name], scores.get(f"majority_{name}", 0.0)
        if score <= majority:
            return f"{name} {score:.4g} is no better than the {majority:.4g} of the majority answer"
    if len(losses) > 1:
        half = len(losses) // 2
        first, second = statistics.mean(losses[:half]), statistics.mean(losses[half:])
        if second >= first:
            return f"its training loss did not fall, from {first:.4g} to {second:.4g} by halves"
    return ""
