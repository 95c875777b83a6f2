"""What the runs of an experiment came to, and how its order of arms stands to the paper's."""

import math
import statistics
from dataclasses import dataclass, field

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

    def agreement(self, column: Column) -> float | None:
        """Kendall's tau-b of the arms' order and the paper's: 1 the same, -1 the reverse; None
        until all have ended, where all scores are the same, and where the paper tells none."""
        arms = self.experiment.arms
        found = [self.score(arm, column) for arm in arms]
        theirs = [self.experiment.published(arm, column) for arm in arms]
        if None in found or None in theirs:
            return None
        tau = float(kendalltau([score.mean for score in found], theirs).statistic)
        return None if math.isnan(tau) else tau

    def is_told_apart(self, column: Column) -> bool:
        """Whether best and worst arm lie further apart than the seeds of the arms do."""
        found = [self.score(arm, column) for arm in self.experiment.arms]
        if None in found or found[0].standard_deviation is None:
            return False
        means = [score.mean for score in found]
        within = math.sqrt(statistics.mean(score.standard_deviation**2 for score in found))
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
