"""Writes the report of an experiment: its scores next to the paper's, curves and costs."""

import dataclasses
import json
import math
from datetime import timedelta
from pathlib import Path

from markupsafe import Markup

from bert_keras.experiments.experiments import slug
from bert_keras.experiments.results import Results
from bert_keras.files import write_text
from bert_keras.reports.charts import Line, line_chart, svg
from bert_keras.reports.page import Report, Section, Table

SCORES = "Scores on the dev sets in percent: the mean over the seeds ± standard deviation."
PUBLISHED = "The paper's scores are for other, larger files."
NOISE = (
    "Each row compares two arms that are neighbours in the paper's order, the better one of the "
    "paper first. A measured difference below 0 reverses this order. A difference is above the "
    "noise of the seeds if p < 0.05 in Tukey's range test, which pools the variance between the "
    "seeds of all compared arms and allows for the number of pairs. The seeds are those of the "
    "fine-tuning; each model is pretrained once, so its own seed is part of every difference."
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


def write_page(output: Path, results: Results) -> None:
    """Writes the report of an experiment.

    Args:
        output: The folder for report.html, report.md with its charts, and results.json with all
            numbers.
        results: The results so far.
    """
    is_published = any(arm.published for arm in results.experiment.arms)
    notes = [SCORES, PUBLISHED] if is_published else [SCORES]
    scores = _score_table(results, is_published=is_published)
    sections = [
        Section(heading="Scores", notes=notes, table=scores),
        Section(heading="Order", table=_order_table(results)),
        Section(heading="Differences", notes=[NOISE], table=_difference_table(results)),
        Section(heading="Curves", notes=[CURVES], charts=_charts(results)),
        Section(heading="Pretraining", notes=[PRETRAINING], table=_pretraining_table(results)),
        Section(heading="Seeds", table=_seed_table(results)),
        Section(heading="Cost", table=_cost_table(results)),
    ]
    report = Report(
        title=results.experiment.title,
        lead=_lead(results),
        sections=[each for each in sections if each.table is None or each.table.rows],
    )
    report.write(output)
    values = {
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
        "kendall_tau": {each.name: each.agreement for each in results.comparisons()},
        "differences": [
            {
                "comparison": comparison.name,
                "better": difference.better.arm.name,
                "worse": difference.worse.arm.name,
                "paper": difference.published,
                "measured": difference.measured,
                "p": None if math.isnan(difference.p_value) else difference.p_value,
            }
            for comparison in results.comparisons()
            for difference in comparison.differences()
        ],
        "pretraining": {name: model.scores for name, model in results.pretrainings.items()},
        **dataclasses.asdict(results.costs),
    }
    write_text(output / "results.json", json.dumps(values, indent=2) + "\n")


def _lead(results: Results) -> list[str]:
    num_cells = len(results.experiment.arms) * len(results.columns)
    lines = [f"Scale: {results.note}", *results.remarks]
    if len(results.scores) < num_cells:
        lines.append(f"{len(results.scores)} of {num_cells} cells have a score so far.")
    failed = [
        f"{arm} on {column} ({score.degenerate} of {len(score.seeds)} seeds)"
        for (arm, column), score in results.scores.items()
        if score.degenerate
    ]
    if failed:
        meaning = "the model learns nothing or is not better than a constant prediction"
        lines.append(f"Degenerate runs ({meaning}): {', '.join(failed)}.")
    return lines


def _score_table(results: Results, *, is_published: bool) -> Table:
    suffixes = ("", ", paper") if is_published else ("",)
    rows = []
    for arm in results.experiment.arms:
        row = [arm.name]
        for column in results.columns:
            row.append(str(results.score(arm, column) or "–"))
            if arm.published:
                row.append(f"{results.experiment.published(arm, column):.1f}")
        rows.append(row)
    return Table(["", *(f"{column.name}{s}" for column in results.columns for s in suffixes)], rows)


def _order_table(results: Results) -> Table:
    rows = []
    for each in results.comparisons():
        if (tau := each.agreement) is not None:
            measured = sorted(each.rows, key=lambda row: row.score.mean, reverse=True)
            published = sorted(each.rows, key=lambda row: row.published, reverse=True)
            orders = (" > ".join(row.arm.name for row in order) for order in (measured, published))
            rows.append([each.name, *orders, f"{tau:+.2f}", _yes_or_no(each.is_significant)])
    header = ["", "measured, best first", "paper", "Kendall's tau", "arms differ more than seeds"]
    return Table(header, rows)


def _difference_table(results: Results) -> Table:
    rows = [
        [
            comparison.name,
            f"{each.better.arm.name} > {each.worse.arm.name}",
            f"{each.published:+.1f}",
            f"{each.measured:+.1f}",
            "–" if math.isnan(each.p_value) else f"{each.p_value:.3f}",
            _yes_or_no(each.is_significant),
        ]
        for comparison in results.comparisons()
        for each in comparison.differences()
    ]
    return Table(["", "order in the paper", "paper", "measured", "p", "above the noise"], rows)


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _pretraining_table(results: Results) -> Table:
    """Returns the scores of the pretrained models, with perplexities if the paper has them."""
    arms, models = results.experiment.models, results.pretrainings
    names = dict.fromkeys(name for model in models.values() for name in model.scores)
    seconds = results.costs.processor_seconds
    header = ["model", "processor time", *(name.replace("_", " ") for name in names)]
    rows = [
        [model, _duration(seconds.get(f"pretrain {model}", 0)), *map(each.scores.get, names)]
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
    columns = [
        costs | {"all": sum(costs.values())}
        for costs in (results.costs.seconds, results.costs.processor_seconds)
    ]
    rows = [[stage, *(_duration(costs[stage]) for costs in columns)] for stage in columns[0]]
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
            if (score := results.score(arm, column)) is not None:
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
