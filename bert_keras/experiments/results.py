"""The results of an experiment and the agreement of its order of arms with the paper's."""

import math
import statistics
from dataclasses import dataclass, field
from typing import Any, cast

from scipy.stats import kendalltau

from bert_keras.experiments.experiments import Arm, Column, Experiment
from bert_keras.training.curves import Curve


@dataclass(frozen=True)
class Score:
    """The score of one arm in one column at its best learning rate."""

    seeds: tuple[float, ...]  # in percent
    learning_rate: float
    degenerate: int  # runs
    curves: tuple[Curve, ...] = ()  # of each seed, on dev

    @property
    def mean(self) -> float:
        return statistics.mean(self.seeds)

    @property
    def standard_deviation(self) -> float:
        """Not a number for one seed."""
        return statistics.stdev(self.seeds) if len(self.seeds) > 1 else math.nan

    def __str__(self) -> str:
        deviation = "" if len(self.seeds) == 1 else f" ± {self.standard_deviation:.1f}"
        return f"{self.mean:.1f}{deviation}"


@dataclass(frozen=True)
class Pretraining:
    """What the pretraining of one model came to."""

    scores: dict
    curves: dict[tuple[str, str], Curve]  # by (side, tag), such as ("held_out", "loss/masked_lm")


@dataclass(kw_only=True)
class Results:
    """The results of an experiment, which fill up as runs end."""

    experiment: Experiment
    columns: tuple[Column, ...]
    note: str
    remarks: tuple[str, ...]
    steps: dict[str, int] = field(default_factory=dict)  # of pretraining, by arm
    pretrainings: dict[str, Pretraining] = field(default_factory=dict)  # by model
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)  # by arm and column
    costs: dict[str, float] = field(default_factory=dict)  # seconds, by stage

    def score(self, arm: Arm, column: Column) -> Score | None:
        return self.scores.get((arm.name, column.name))

    def compared(self, column: Column) -> list[tuple[Arm, Score, float]]:
        """Returns every arm with its score and the paper's; none until all have ended."""
        rows = []
        for arm in self.experiment.arms:
            ours, theirs = self.score(arm, column), self.experiment.published(arm, column)
            if ours is None or theirs is None:
                return []
            rows.append((arm, ours, theirs))
        return rows

    def agreement(self, column: Column) -> float | None:
        """Returns Kendall's tau-b of the arms' order and the paper's: 1 the same, -1 the reverse.

        None until all have ended, where all scores are the same, and where the paper has none.
        """
        if not (compared := self.compared(column)):
            return None
        ours, theirs = [row[1].mean for row in compared], [row[2] for row in compared]
        tau = cast(Any, kendalltau(ours, theirs)).statistic
        return None if math.isnan(tau) else float(tau)

    def is_told_apart(self, column: Column) -> bool:
        """Returns whether best and worst arm lie further apart than the seeds of the arms do."""
        scores = [score for _, score, _ in self.compared(column)]
        if not scores:
            return False
        means = [score.mean for score in scores]
        within = math.sqrt(statistics.mean(score.standard_deviation**2 for score in scores))
        return max(means) - min(means) > 2 * within  # False where a deviation is not a number
