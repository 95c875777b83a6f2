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
    """Of one arm in one column, in percent, at its best learning rate: one for each seed."""

    seeds: tuple[float, ...]
    learning_rate: float
    degenerate: int

    @property
    def mean(self) -> float:
        return statistics.mean(self.seeds)

    @property
    def standard_deviation(self) -> float | None:
        return statistics.stdev(self.seeds) if len(self.seeds) > 1 else None


@dataclass(frozen=True)
class Pretraining:
    """`curves` by (side, tag), such as ("held_out", "loss/masked_lm")."""

    scores: dict
    curves: dict[tuple[str, str], Curve]


@dataclass(kw_only=True)
class Results:
    """Fills up as runs end. `steps` are the arms' of pretraining, `scores` and `curves` (those on
    dev, one for each seed) are by the names of arm and column, `pretrainings` by that of the model;
    `costs` are seconds."""

    experiment: Experiment
    columns: tuple[Column, ...]
    note: str
    remarks: tuple[str, ...]
    steps: dict[str, int] = field(default_factory=dict)
    pretrainings: dict[str, Pretraining] = field(default_factory=dict)
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)
    curves: dict[tuple[str, str], list[Curve]] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)

    def score(self, arm: Arm, column: Column) -> Score | None:
        return self.scores.get((arm.name, column.name))

    def compared(self, column: Column) -> list[tuple[Arm, Score, float]]:
        """Every arm with its score and the paper's; none until all have ended."""
        arms = self.experiment.arms
        rows = [(arm, self.score(arm, column), self.experiment.published(arm, column))
                for arm in arms]  # fmt: skip
        whole = [
            (a, ours, theirs) for a, ours, theirs in rows if ours is not None and theirs is not None
        ]
        return whole if len(whole) == len(arms) else []

    def agreement(self, column: Column) -> float | None:
        """Kendall's tau-b of the arms' order and the paper's: 1 the same, -1 the reverse.

        None until all have ended, where all scores are the same, and where the paper has none.
        """
        compared = self.compared(column)
        ours, theirs = [row[1].mean for row in compared], [row[2] for row in compared]
        tau = cast(Any, kendalltau(ours, theirs)).statistic if compared else math.nan
        return None if math.isnan(tau) else float(tau)

    def is_told_apart(self, column: Column) -> bool:
        """Whether best and worst arm lie further apart than the seeds of the arms do."""
        scores = [self.score(arm, column) for arm in self.experiment.arms]
        found = [score for score in scores if score is not None]
        deviations = [s.standard_deviation for s in found if s.standard_deviation is not None]
        if len(deviations) < len(scores):
            return False
        means = [score.mean for score in found]
        within = math.sqrt(statistics.mean(deviation**2 for deviation in deviations))
        return max(means) - min(means) > 2 * within


def score_of(outcome: dict, column: Column) -> Score:
    """Of a study.json."""
    best = outcome["best_learning_rate"]
    runs = [run for run in outcome["runs"] if run["learning_rate"] == best]
    return Score(
        seeds=tuple(column.factor * run["scores"][column.score] for run in runs),
        learning_rate=best,
        degenerate=sum(bool(run["degenerate"]) for run in runs),
    )
