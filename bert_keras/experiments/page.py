"""Writes the report of an experiment: its scores beside the paper's, curves and costs."""

import json
import math
from datetime import timedelta
from pathlib import Path

from markupsafe import Markup

from bert_keras.experiments.experiments import Column, arms_named, slug
from bert_keras.experiments.results import Results, Score
from bert_keras.reports.charts import Line, line_chart, svg
from bert_keras.reports.page import Report, Section, Table
from bert_keras.storage import write_text

TABLE = "On dev, in percent: the mean over seeds ± standard deviation."
BESIDE = "The paper's beside it are of other, larger files."
CURVES = (
    "One line a model or a seed, one colour an arm. Losses of models that read from left to right "
    "are of every next piece, those of the others of masked ones: they do not compare."
)


def write_page(output: Path, results: Results) -> None:
    """Writes report.html, report.md with its charts, and results.json for programs."""
    is_published = any(arm.published for arm in results.experiment.arms)
    tables = [
        Section(
            heading="Scores",
            notes=[TABLE, BESIDE] if is_published else [TABLE],
            table=_score_table(results, is_published=is_published),
        ),
        Section(heading="Order", table=_order_table(results)),
        Section(heading="Curves", notes=[CURVES], charts=_charts(results)),
        Section(heading="Pretraining", table=_pretraining_table(results)),
        Section(heading="Seeds", table=_seed_table(results)),
        Section(heading="Cost", table=_cost_table(results)),
    ]
    report = Report(
        title=results.experiment.title,
        lead=_lead(results),
        sections=[each for each in tables if each.table is None or each.table.rows],
    )
    report.write(output)
    write_text(output / "results.json", json.dumps(_numbers(results), indent=2) + "\n")


def _lead(results: Results) -> list[str]:
    planned = len(results.experiment.arms) * len(results.columns)
    lines = [f"What this scale shows: {results.note}", *results.remarks]
    if len(results.scores) < planned:
        lines.append(f"{len(results.scores)} of {planned} cells have been filled so far.")
    failed = [
        f"{arm} on {column} ({score.degenerate} of {len(score.seeds)} seeds)"
        for (arm, column), score in results.scores.items()
        if score.degenerate
    ]
    if failed:
        what = "Degenerate, no better than an answer that reads nothing or not learning"
        lines.append(f"{what}: {', '.join(failed)}.")
    return lines


def told(score: Score | None) -> str:
    """Formats a score as its mean and, of several seeds, its deviation."""
    if score is None:
        return "–"
    deviation = score.standard_deviation
    return f"{score.mean:.1f}" + ("" if deviation is None else f" ± {deviation:.1f}")


def _score_table(results: Results, *, is_published: bool) -> Table:
    whose = ("", ", paper") if is_published else ("",)
    rows = []
    for arm in results.experiment.arms:
        row = [arm.name]
        for column in results.columns:
            row.append(told(results.score(arm, column)))
            if arm.published:
                row.append(f"{results.experiment.published(arm, column):.1f}")
        rows.append(row)
    return Table(["", *(f"{column.name}{w}" for column in results.columns for w in whose)], rows)


def _order_table(results: Results) -> Table:
    rows = []
    for column in results.columns:
        compared, tau = results.compared(column), results.agreement(column)
        if tau is not None:
            ours, theirs = (
                " > ".join(arm.name for arm, *_ in sorted(compared, key=score, reverse=True))
                for score in (lambda row: row[1].mean, lambda row: row[2])
            )
            is_told_apart = results.is_told_apart(column)
            apart = "yes" if is_told_apart else "no: within what seeds do"
            rows.append([column.name, ours, theirs, f"{tau:+.2f}", apart])
    return Table(["", "ours, best first", "the paper's", "Kendall's tau", "arms told apart"], rows)


def _pretraining_table(results: Results) -> Table:
    """With perplexities where the paper has some."""
    arms, models = arms_named(results.experiment.arms), results.pretrainings
    names = list(dict.fromkeys(n for p in models.values() for n in p.scores))
    header = ["model", *(name.replace("_", " ") for name in names)]
    rows = [[model, *map(p.scores.get, names)] for model, p in models.items()]
    if all(arm.perplexity for arm in arms.values()):
        header += ["perplexity of masked pieces", "the paper's"]
        for row, (model, pretraining) in zip(rows, models.items(), strict=True):
            loss = pretraining.scores.get("held_out_masked_lm_loss", math.nan)
            row += [math.exp(loss), arms[model].perplexity]
    return Table(header, rows)


def _seed_table(results: Results) -> Table:
    rows = [
        [arm, column, f"{score.learning_rate:g}", ", ".join(f"{each:.1f}" for each in score.seeds)]
        for (arm, column), score in results.scores.items()
    ]
    return Table(["arm", "task", "learning rate", "of each seed"], rows)


def _cost_table(results: Results) -> Table:
    costs = results.costs | {"all": sum(results.costs.values())}
    rows = [[stage, str(timedelta(seconds=round(cost)))] for stage, cost in costs.items()]
    return Table(["stage", "hours:minutes:seconds"], rows)


def _charts(results: Results) -> dict[str, Markup]:
    """The losses of pretraining, then the score on dev of each task and, where arms are of several
    steps, by their steps."""
    charts = {
        "pretraining-loss": (
            "training loss, masked or next pieces",
            _pretraining_lines(results, "train"),
        ),
        "held-out-loss": (
            "held-out loss, masked or next pieces",
            _pretraining_lines(results, "held_out"),
        ),
    }
    for column in results.columns:
        name, told = slug(column.name), column.name
        charts[name] = (f"{told}: {column.score} on dev", _dev_lines(results, column))
        if len(set(results.steps.values())) > 1:
            lines = _lines_by_steps(results, column)
            charts[f"{name}-by-steps"] = (f"{told} by steps of pretraining", lines)
    return {name: svg(line_chart(*chart)) for name, chart in charts.items()}


def _pretraining_lines(results: Results, side: str) -> list[Line]:
    """With one output Keras has its loss as the total alone."""
    return [
        Line(
            label=model,
            group=model,
            points=each.curves.get((side, "loss/masked_lm"))
            or each.curves.get((side, "loss/total"), []),
        )
        for model, each in results.pretrainings.items()
    ]


def _lines_by_steps(results: Results, column: Column) -> list[Line]:
    points: dict[str, list[tuple[float, float]]] = {}
    for arm in results.experiment.arms:
        if (score := results.score(arm, column)) is not None:
            points.setdefault(arm.pretraining_name, []).append(
                (results.steps[arm.name], score.mean)
            )
    return [Line(label=name, group=name, points=line) for name, line in points.items()]


def _dev_lines(results: Results, column: Column) -> list[Line]:
    return [
        Line(label=f"{arm.name}, seed {seed}", group=arm.name, points=points)
        for arm in results.experiment.arms
        for seed, points in enumerate(results.curves.get((arm.name, column.name), []), start=1)
    ]


def _numbers(results: Results) -> dict:
    return {
        "table": results.experiment.name,
        "cells": [
            {
                "arm": arm.name,
                "column": column.name,
                "paper": results.experiment.published(arm, column),
                "seeds": score.seeds,
                "learning_rate": score.learning_rate,
                "degenerate": score.degenerate,
            }
            for arm in results.experiment.arms
            for column in results.columns
            if (score := results.score(arm, column)) is not None
        ],
        "kendall_tau": {column.name: results.agreement(column) for column in results.columns},
        "pretraining": {name: p.scores for name, p in results.pretrainings.items()},
        "seconds": results.costs,
    }
