"""Stores the results of an experiment and compares the order of its arms with the paper's."""

import math
import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.stats import kendalltau, tukey_hsd

from bert_keras.experiments.experiments import Arm, Experiment, ScoreColumn
from bert_keras.training.curves import Curve

SIGNIFICANCE_LEVEL = 0.05  # largest p-value of a difference above the noise of the seeds


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


class ComparedArm(NamedTuple):
    """An arm with its scores in one column."""

    arm: Arm
    score: Score
    published: float  # the paper's score


class Difference(NamedTuple):
    """The difference between two arms that are neighbours in the paper's order."""

    better: ComparedArm  # in the paper
    worse: ComparedArm
    p_value: float  # see `Comparison.p_values`

    @property
    def measured(self) -> float:
        """The difference of the measured scores in percentage points."""
        return self.better.score.mean - self.worse.score.mean

    @property
    def published(self) -> float:
        """The difference of the paper's scores in percentage points."""
        return self.better.published - self.worse.published

    @property
    def is_significant(self) -> bool:
        """Whether the measured difference is above the noise of the seeds."""
        return self.p_value < SIGNIFICANCE_LEVEL


@dataclass(frozen=True)
class Comparison:
    """The scores of arms in one column, compared with each other and with the paper's scores."""

    name: str  # of the column, with what the arms have equal
    rows: list[ComparedArm]

    @property
    def agreement(self) -> float | None:
        """Kendall's tau-b of the measured order and the paper's order.

        1 for the same order, -1 for the reverse order, None if all scores are equal.
        """
        means = [row.score.mean for row in self.rows]
        published = [row.published for row in self.rows]
        tau = cast(Any, kendalltau(means, published)).statistic
        return None if math.isnan(tau) else float(tau)

    @property
    def p_values(self) -> np.ndarray:
        """The p-values of Tukey's range test for each two arms, float64 [arms, arms].

        The noise is the variance between the seeds of an arm, pooled over the arms. The test allows
        for the number of seeds and for the number of pairs of arms. NaN for arms with one seed, and
        for equal arms without noise.
        """
        seeds = [row.score.seeds for row in self.rows]
        if min(map(len, seeds)) == 1:
            return np.full([len(seeds)] * 2, math.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return tukey_hsd(*seeds).pvalue

    @property
    def is_significant(self) -> bool:
        """Whether any difference between arms is above the noise of the seeds."""
        return bool((self.p_values < SIGNIFICANCE_LEVEL).any())

    def differences(self) -> list[Difference]:
        """Returns the differences between neighbours in the paper's order."""
        rows, p_values = self.rows, self.p_values
        order = sorted(range(len(rows)), key=lambda index: rows[index].published, reverse=True)
        return [Difference(rows[i], rows[j], float(p_values[i, j])) for i, j in pairwise(order)]


@dataclass(frozen=True)
class Pretraining:
    """The scores and curves of one pretrained model."""

    scores: dict
    curves: dict[tuple[str, str], Curve]  # by (side, tag), such as ("held_out", "loss/masked_lm")


@dataclass(frozen=True)
class Costs:
    """The costs of the stages of an experiment."""

    seconds: dict[str, float] = field(default_factory=dict)  # by the clock
    processor_seconds: dict[str, float] = field(default_factory=dict)  # of all threads

    def add(self, stage: str, *, seconds: float, processor_seconds: float) -> None:
        """Adds the times of a stage, which an interrupted run has more than once."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        earlier = self.processor_seconds.get(stage, 0.0)
        self.processor_seconds[stage] = earlier + processor_seconds


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
    costs: Costs = field(default_factory=Costs)

    def score(self, arm: Arm, column: ScoreColumn) -> Score | None:
        """Returns the score of a cell; None until its runs have ended."""
        return self.scores.get((arm.name, column.name))

    def comparisons(self) -> list[Comparison]:
        """Returns the comparisons whose arms all have a measured score and one of the paper."""
        found = []
        for column in self.columns:
            for suffix, arms in self.experiment.groups.items():
                rows = [
                    ComparedArm(arm, score, published)
                    for arm in arms
                    if (score := self.score(arm, column)) is not None
                    and (published := self.experiment.published(arm, column)) is not None
                ]
                if len(rows) == len(arms):
                    found.append(Comparison(column.name + suffix, rows))
        return found
