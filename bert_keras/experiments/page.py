"""Writes the report of an experiment: its scores next to the paper's, curves and costs."""

import math
import statistics
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup
from scipy.stats import kendalltau

from bert_keras.experiments.experiments import Experiment, ScoreColumn, slug
from bert_keras.files import write_json
from bert_keras.reports.charts import Line, line_chart, svg
from bert_keras.reports.page import Report, Section, Table
from bert_keras.training.curves import Curve

SCORES = "Scores on the dev sets in percent: the mean over the seeds ± standard deviation."
PUBLISHED = "The paper's scores are for other, larger files."
ORDER = (
    "The arms of each task by their mean, and by the paper's score. Differences within the spread "
    "of the seeds have no meaning; each model is pretrained once, so its own seed is part of every "
    "difference."
)
PRETRAINING = (
    "All models read the same records. The processor time is that of all threads, with the scoring "
    "of held-out records. Objectives that predict masked tokens have steps of equal cost, whatever "
    "the replacement of masked tokens is."
)
CURVES = (
    "Each model or seed has a line, and each arm has a colour. Left-to-right models have the loss "
    "of every next token, and other models have the loss of masked tokens. These losses are not "
    "comparable."
)


@dataclass(frozen=True)
class Score:
    """The score of one arm in one column at its best learning rate."""

    seeds: tuple[float, ...]  # the score of each seed that did not diverge, in percent
    learning_rate: float
    diverged: int  # number of runs that diverged
    curves: tuple[Curve, ...] = ()  # the dev score of each seed by step

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
    # Seconds by the clock and of all threads, by stage.
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)


def write_page(output: Path, results: Results) -> None:
    """Writes report.html, report.md with its charts, and results.json with all numbers."""
    is_published = any(arm.published for arm in results.experiment.arms)
    orders = _orders(results)
    header = ["", "measured, best first", "paper", "Kendall's tau"]
    sections = [
        Section(
            heading="Scores",
            notes=[SCORES, PUBLISHED] if is_published else [SCORES],
            table=_score_table(results, is_published=is_published),
        ),
        Section(heading="Order", notes=[ORDER], table=Table(header, orders)),
        Section(heading="Curves", notes=[CURVES], charts=_charts(results)),
        Section(heading="Pretraining", notes=[PRETRAINING], table=_pretraining_table(results)),
        Section(heading="Seeds", table=_seed_table(results)),
        Section(heading="Cost", table=_cost_table(results)),
    ]
    Report(
        title=results.experiment.title,
        lead=_lead(results),
        sections=[each for each in sections if each.table is None or each.table.rows],
    ).write(output)
    values = {
        "table": results.experiment.name,
        "cells": [
            {
                "arm": arm.name,
                "column": column.name,
                "paper": results.experiment.published(arm, column),
                "seeds": score.seeds,
                "learning_rate": score.learning_rate,
                "diverged": score.diverged,
            }
            for arm in results.experiment.arms
            for column in results.columns
            if (score := results.scores.get((arm.name, column.name))) is not None
        ],
        "kendall_tau": {name: float(tau) for name, *_, tau in orders},
        "pretraining": {name: model.scores for name, model in results.pretrainings.items()},
        "costs": results.costs,
    }
    write_json(output / "results.json", values)


def _lead(results: Results) -> list[str]:
    num_cells, lines = len(results.experiment.arms) * len(results.columns), [*results.remarks]
    if len(results.scores) < num_cells:
        lines.append(f"{len(results.scores)} of {num_cells} cells have a score so far.")
    return lines + [
        f"Diverged: {score.diverged} of the runs of {arm} on {column}."
        for (arm, column), score in results.scores.items()
        if score.diverged
    ]


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


def _orders(results: Results) -> list[list[str]]:
    """Returns the measured and the paper's order of the arms, and Kendall's tau-b of both.

    Columns are left out until all arms have a score, and where all scores are equal.
    """
    rows = []
    for column in results.columns:
        for suffix, arms in results.experiment.groups.items():
            scores = [results.scores.get((arm.name, column.name)) for arm in arms]
            if not all(scores) or not all(arm.published for arm in arms):
                continue
            means = [score.mean for score in scores if score]
            index = results.experiment.columns.index(column)
            published = [arm.published[index] for arm in arms]
            tau = cast(Any, kendalltau(means, published)).statistic
            if not math.isnan(tau):
                orders = (
                    " > ".join(arms[i].name for i in sorted(range(len(arms)), key=lambda i: -v[i]))
                    for v in (means, published)
                )
                rows.append([column.name + suffix, *orders, f"{tau:+.2f}"])
    return rows


def _pretraining_table(results: Results) -> Table:
    """Returns the scores of the pretrained models, with perplexities if the paper has them."""
    arms, models = results.experiment.models, results.pretrainings
    names = dict.fromkeys(name for model in models.values() for name in model.scores)
    header = ["model", "processor time", *(name.replace("_", " ") for name in names)]
    rows = [
        [
            model,
            _duration(results.costs.get(f"pretrain {model}", (0, 0))[1]),
            *map(each.scores.get, names),
        ]
        for model, each in models.items()
    ]
    if all(arm.perplexity for arm in arms.values()):
        header += ["perplexity of masked tokens", "perplexity, paper"]
        for row, (model, each) in zip(rows, models.items(), strict=True):
            loss = each.scores.get("held_out_masked_lm_loss", math.nan)
            row += [math.exp(loss), arms[model].perplexity]
    return Table(header, rows)


def _seed_table(results: Results) -> Table:
    rows = [
        [arm, column, f"{score.learning_rate:g}", ", ".join(f"{each:.1f}" for each in score.seeds)]
        for (arm, column), score in results.scores.items()
    ]
    return Table(["arm", "task", "learning rate", "score of each seed"], rows)


def _cost_table(results: Results) -> Table:
    rows = [[stage, *map(_duration, times)] for stage, times in results.costs.items()]
    if rows:
        rows.append(["all", *map(_duration, map(sum, zip(*results.costs.values(), strict=True)))])
    return Table(["stage", "time", "processor time of all threads"], rows)


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _charts(results: Results) -> dict[str, Markup]:
    """Draws the pretraining losses and the dev scores of each task.

    If arms start at parts of a pretraining, it also draws the scores by steps.
    """
    charts: dict[str, tuple[str, list[Line]]] = {}
    for name, title, side in (
        ("pretraining-loss", "training loss", "train"),
        ("held-out-loss", "held-out loss", "held_out"),
    ):
        lines = []
        for model, each in results.pretrainings.items():
            total = each.curves.get((side, "loss/total"), [])  # for models with one output
            points = each.curves.get((side, "loss/masked_lm"), total)
            lines.append(Line(label=model, group=model, points=points))
        charts[name] = (f"{title}, masked or next tokens", lines)
    for column in results.columns:
        seeds: list[Line] = []
        by_steps: dict[str, list[tuple[float, float]]] = {}
        for arm in results.experiment.arms:
            if (score := results.scores.get((arm.name, column.name))) is not None:
                for seed, points in enumerate(score.curves, start=1):
                    seeds.append(Line(f"{arm.name}, seed {seed}", arm.name, points))
                steps = results.steps.get(arm.name, 0)
                by_steps.setdefault(arm.pretraining_name, []).append((steps, score.mean))
        name = slug(column.name)
        charts[name] = (f"{column.name}: {column.score} on dev", seeds)
        if any(arm.step_fraction < 1 for arm in results.experiment.arms):
            lines = [Line(model, model, points) for model, points in by_steps.items()]
            charts[f"{name}-by-steps"] = (f"{column.name} by pretraining steps", lines)
    return {name: svg(line_chart(*chart)) for name, chart in charts.items()}
