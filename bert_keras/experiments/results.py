"""Stores the results of an experiment and compares the order of its arms with the paper's."""

import math
import statistics
from dataclasses import dataclass, field
from typing import Any, cast

from scipy.stats import kendalltau

from bert_keras.experiments.experiments import Arm, Experiment, ScoreColumn
from bert_keras.training.curves import Curve


@dataclass(frozen=True)
class Score:
    """The score of one arm in one column at its best learning rate."""

    seeds: tuple[float, ...]  # the score of each seed, in percent
    learning_rate: float
    degenerate: int  # number of degenerate runs
    curves: tuple[Curve, ...] = ()  # the dev score of each seed by step

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.mean(self.seeds)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation over the seeds; NaN for one seed."""
        return statistics.stdev(self.seeds) if len(self.seeds) > 1 else math.nan

    def __str__(self) -> str:
        deviation = "" if len(self.seeds) == 1 else f" ± {self.standard_deviation:.1f}"
        return f"{self.mean:.1f}{deviation}"


@dataclass(frozen=True)
class Pretraining:
    """The scores and curves of one pretrained model."""

    scores: dict
    curves: dict[tuple[str, str], Curve]  # by (side, tag), such as ("held_out", "loss/masked_lm")


@dataclass(kw_only=True)
class Results:
    """The results of an experiment, which are added as runs end."""

    experiment: Experiment
    columns: tuple[ScoreColumn, ...]  # the columns whose files exist
    note: str  # what the scale of the experiment can show
    remarks: tuple[str, ...]  # sentences about missing columns and replaced sizes
    steps: dict[str, int] = field(default_factory=dict)  # pretraining steps, by arm
    pretrainings: dict[str, Pretraining] = field(default_factory=dict)  # by model
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)  # by arm and column
    costs: dict[str, float] = field(default_factory=dict)  # seconds, by stage

    def score(self, arm: Arm, column: ScoreColumn) -> Score | None:
        """Returns the score of a cell; None until its runs have ended."""
        return self.scores.get((arm.name, column.name))

    def comparison(self, column: ScoreColumn) -> list[tuple[Arm, Score, float]]:
        """Returns every arm of a column with its score and the paper's score.

        The list is empty until all arms have a score.
        """
        rows = []
        for arm in self.experiment.arms:
            score, published = self.score(arm, column), self.experiment.published(arm, column)
            if score is None or published is None:
                return []
            rows.append((arm, score, published))
        return rows

    def agreement(self, column: ScoreColumn) -> float | None:
        """Compares the order of the arms in a column with the paper's order.

        Returns:
            Kendall's tau-b: 1 for the same order, -1 for the reverse order. None until all arms
            have a score, if all scores are equal, or if the paper has no scores.
        """
        if not (arms := self.comparison(column)):
            return None
        means, published = [row[1].mean for row in arms], [row[2] for row in arms]
        tau = cast(Any, kendalltau(means, published)).statistic
        return None if math.isnan(tau) else float(tau)

    def is_order_significant(self, column: ScoreColumn) -> bool:
        """Returns whether the differences between the arms are larger than those between seeds.

        This is the case if the means of the best and the worst arm differ by more than two standard
        deviations, pooled over the arms.
        """
        scores = [score for _, score, _ in self.comparison(column)]
        if not scores:
            return False
        means = [score.mean for score in scores]
        pooled = math.sqrt(statistics.mean(score.standard_deviation**2 for score in scores))
        return max(means) - min(means) > 2 * pooled  # False if a deviation is NaN
