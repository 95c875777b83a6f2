"""Writes the report of an experiment: its scores next to the paper's."""

import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from bert_keras.experiments.experiments import Experiment, ScoreColumn
from bert_keras.files import write_json
from bert_keras.reports.page import Report, Section, Table

SCORES = (
    "Scores on the dev sets in percent: the mean over the seeds ± standard deviation. Differences "
    "within the spread of the seeds have no meaning; each model is pretrained once, so its own "
    "seed is part of every difference."
)
PUBLISHED = "The paper's scores are for other, larger files."
PRETRAINING = (
    "All models read the same records. Left-to-right models have the loss of every next token, and "
    "other models have the loss of masked tokens. These losses are not comparable."
)


@dataclass(frozen=True)
class Score:
    """The score of one arm in one column at its best learning rate."""

    seeds: tuple[float, ...]  # the score of each seed that did not diverge, in percent
    learning_rate: float
    diverged: int  # number of runs that diverged

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.mean(self.seeds)

    def __str__(self) -> str:
        deviation = f" ± {statistics.stdev(self.seeds):.1f}" if len(self.seeds) > 1 else ""
        return f"{self.mean:.1f}{deviation}"


@dataclass(kw_only=True)
class Results:
    """The results of an experiment, which are added as runs end."""

    experiment: Experiment
    columns: tuple[ScoreColumn, ...]  # the columns whose files exist
    remarks: tuple[str, ...]  # sentences about the scale and missing columns
    steps: dict[str, int] = field(default_factory=dict)  # pretraining steps, by arm
    pretrainings: dict[str, dict] = field(default_factory=dict)  # scores by model
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)  # by arm and column


def write_page(output: Path, results: Results) -> None:
    """Writes report.html, report.md, and results.json with all numbers."""
    experiment, scores = results.experiment, results.scores
    num_cells, lead = len(experiment.arms) * len(results.columns), [*results.remarks]
    if len(scores) < num_cells:
        lead.append(f"{len(scores)} of {num_cells} cells have a score so far.")
    lead += [
        f"Diverged: {score.diverged} of the runs of {arm} on {column}."
        for (arm, column), score in scores.items()
        if score.diverged
    ]
    seeds = [
        [arm, column, f"{score.learning_rate:g}", ", ".join(f"{each:.1f}" for each in score.seeds)]
        for (arm, column), score in scores.items()
    ]
    header = ["arm", "task", "learning rate", "score of each seed"]
    is_published = any(arm.published for arm in experiment.arms)
    sections = [
        Section(
            heading="Scores",
            notes=[SCORES, PUBLISHED] if is_published else [SCORES],
            table=_score_table(results),
        ),
        Section(heading="Pretraining", notes=[PRETRAINING], table=_pretraining_table(results)),
        Section(heading="Seeds", table=Table(header, seeds)),
    ]
    Report(title=experiment.title, lead=lead, sections=sections).write(output)
    cells = [
        {
            "arm": arm.name,
            "column": column.name,
            "paper": experiment.published(arm, column),
            "seeds": score.seeds,
            "learning_rate": score.learning_rate,
            "diverged": score.diverged,
        }
        for arm in experiment.arms
        for column in results.columns
        if (score := scores.get((arm.name, column.name))) is not None
    ]
    values = {"table": experiment.name, "cells": cells, "pretraining": results.pretrainings}
    write_json(output / "results.json", values)


def _score_table(results: Results) -> Table:
    """Returns the scores, and beside each column that the paper has, the paper's scores."""
    experiment, header = results.experiment, [""]
    rows = [[arm.name] for arm in experiment.arms]
    for column in results.columns:
        header.append(column.name)
        paper = [experiment.published(arm, column) for arm in experiment.arms]
        for arm, row in zip(experiment.arms, rows, strict=True):
            row.append(str(results.scores.get((arm.name, column.name), "–")))
        if any(paper):
            header.append(f"{column.name}, paper")
            for row, score in zip(rows, paper, strict=True):
                row.append(f"{score:.1f}" if score else "–")
    return Table(header, rows)


def _pretraining_table(results: Results) -> Table:
    """Returns the scores of the pretrained models, with perplexities if the paper has them."""
    arms, models = results.experiment.models, results.pretrainings
    names = dict.fromkeys(name for scores in models.values() for name in scores)
    header = ["model", *(name.replace("_", " ") for name in names)]
    rows = [[model, *map(scores.get, names)] for model, scores in models.items()]
    if all(arm.perplexity for arm in arms.values()):
        header += ["perplexity of masked tokens", "perplexity, paper"]
        for row, (model, scores) in zip(rows, models.items(), strict=True):
            loss = scores.get("held_out_masked_lm_loss", math.nan)
            row += [math.exp(loss), arms[model].perplexity]
    return Table(header, rows)
