"""Writes the report of an experiment: its scores next to the paper's, and curves."""

import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from bert_keras.experiments.experiments import Experiment, ScoreColumn, slug
from bert_keras.files import write_json
from bert_keras.reports.charts import Line, line_chart
from bert_keras.reports.page import Report, Section, Table
from bert_keras.training.tensorboard import Curve

SCORES = (
    "Scores on the dev sets in percent: the mean over the seeds ± standard deviation. Differences "
    "within the spread of the seeds have no meaning; each model is pretrained once, so its own "
    "seed is part of every difference."
)
PUBLISHED = "The paper's scores are for other, larger files."
CURVES = (
    "All models read the same records. Left-to-right models have the loss of every next token, and "
    "other models have the loss of masked tokens. These losses are not comparable. The folder of "
    "each task, finetune/ARM/TASK, has the curves of its runs."
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
    remarks: tuple[str, ...]  # sentences about the scale and missing columns
    steps: dict[str, int] = field(default_factory=dict)  # pretraining steps, by arm
    pretrainings: dict[str, Pretraining] = field(default_factory=dict)  # by model
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)  # by arm and column


def write_page(output: Path, results: Results) -> None:
    """Writes report.html, report.md with its charts, and results.json with all numbers."""
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
            table=_score_table(results, is_published=is_published),
        ),
        Section(heading="Curves", notes=[CURVES], charts=_charts(results)),
        Section(heading="Pretraining", table=_pretraining_table(results)),
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
    pretraining = {name: model.scores for name, model in results.pretrainings.items()}
    values = {"table": experiment.name, "cells": cells, "pretraining": pretraining}
    write_json(output / "results.json", values)


def _score_table(results: Results, *, is_published: bool) -> Table:
    suffixes = ("", ", paper") if is_published else ("",)
    rows = []
    for arm in results.experiment.arms:
        row = [arm.name]
        for column in results.columns:
            row.append(str(results.scores.get((arm.name, column.name), "–")))
            if arm.published:
                row.append(f"{results.experiment.published(arm, column):.1f}")
        rows.append(row)
    return Table(["", *(f"{column.name}{s}" for column in results.columns for s in suffixes)], rows)


def _pretraining_table(results: Results) -> Table:
    """Returns the scores of the pretrained models, with perplexities if the paper has them."""
    arms, models = results.experiment.models, results.pretrainings
    names = dict.fromkeys(name for model in models.values() for name in model.scores)
    header = ["model", *(name.replace("_", " ") for name in names)]
    rows = [[model, *map(each.scores.get, names)] for model, each in models.items()]
    if all(arm.perplexity for arm in arms.values()):
        header += ["perplexity of masked tokens", "perplexity, paper"]
        for row, (model, each) in zip(rows, models.items(), strict=True):
            loss = each.scores.get("held_out_masked_lm_loss", math.nan)
            row += [math.exp(loss), arms[model].perplexity]
    return Table(header, rows)


def _charts(results: Results) -> dict[str, Markup]:
    """Draws the pretraining losses and, if arms start at parts of a pretraining, the scores."""
    charts: dict[str, tuple[str, list[Line]]] = {}
    for name, title, side in (
        ("pretraining-loss", "training loss", "train"),
        ("held-out-loss", "held-out loss", "held_out"),
    ):
        lines = []
        for model, each in results.pretrainings.items():
            total = each.curves.get((side, "loss/total"), [])  # for models with one output
            lines.append(Line(model, each.curves.get((side, "loss/masked_lm"), total)))
        charts[name] = (f"{title}, masked or next tokens", lines)
    is_by_steps = any(arm.step_fraction < 1 for arm in results.experiment.arms)
    for column in results.columns if is_by_steps else ():
        points: dict[str, list[tuple[float, float]]] = {}
        for arm in results.experiment.arms:
            if (score := results.scores.get((arm.name, column.name))) is not None:
                step = results.steps.get(arm.name, 0)
                points.setdefault(arm.pretraining_name, []).append((step, score.mean))
        lines = [Line(*each) for each in points.items()]
        charts[f"{slug(column.name)}-by-steps"] = (f"{column.name} by pretraining steps", lines)
    return {name: line_chart(*chart) for name, chart in charts.items()}
