"""Results in; report.html, report.md and curves/*.svg, beside the paper's numbers, out."""

import json
import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from bert_keras.experiments.experiments import Arm, Column, arms_named, slug
from bert_keras.experiments.results import Results, Score
from bert_keras.reports.charts import Line, line_chart
from bert_keras.reports.page import Html, element, page, pipes, table
from bert_keras.storage import write_text

Rows = list[list[object]]  # a header, then values

TABLE = "On dev, in percent: the mean over seeds ± standard deviation."
BESIDE = "The paper's beside it are of other, larger files."
CURVES = (
    "One line a model or a seed, one colour an arm. Losses of models that read from left to right "
    "are of every next piece, those of the others of masked ones: they do not compare."
)


def write_page(output: Path, results: Results) -> None:
    """Also results.json, the same for programs."""
    charts = _charts(results)
    parts = [
        ("Scores", [TABLE, *([BESIDE] if _is_published(results) else [])], _score_rows(results)),
        ("Order", [], _order_rows(results)),
        ("Curves", [CURVES], None),
        ("Pretraining", [], _pretraining_rows(results)),
        ("Seeds", [], _seed_rows(results)),
        ("Cost", [], _cost_rows(results)),
    ]
    parts = [part for part in parts if part[2] is None or part[2][1:]]
    title = results.experiment.title
    write_text(output / "report.html", _html(title, _lead(results), parts, charts))
    for name, chart in charts.items():
        write_text(output / "curves" / f"{name}.svg", chart)
    write_text(output / "report.md", _markdown(title, _lead(results), parts, list(charts)))
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
    if score is None:
        return "–"
    deviation = score.standard_deviation
    return f"{score.mean:.1f}" + ("" if deviation is None else f" ± {deviation:.1f}")


def _is_published(results: Results) -> bool:
    return any(arm.published for arm in results.experiment.arms)


def _score_rows(results: Results) -> Rows:
    whose = ("", ", paper") if _is_published(results) else ("",)
    rows: Rows = [["", *(f"{column.name}{w}" for column in results.columns for w in whose)]]
    for arm in results.experiment.arms:
        row = [arm.name]
        for column in results.columns:
            row.append(told(results.score(arm, column)))
            if arm.published:
                row.append(f"{results.experiment.published(arm, column):.1f}")
        rows.append(row)
    return rows


def _order_rows(results: Results) -> Rows:
    rows: Rows = [["", "ours, best first", "the paper's", "Kendall's tau", "arms told apart"]]
    for column in results.columns:
        tau = results.agreement(column)
        if tau is None:
            continue
        means = {arm: results.score(arm, column).mean for arm in results.experiment.arms}
        paper = {arm: results.experiment.published(arm, column) for arm in means}
        rows.append(
            [
                column.name,
                _order(means),
                _order(paper),
                f"{tau:+.2f}",
                "yes" if results.is_told_apart(column) else "no: within what seeds do",
            ]
        )
    return rows


def _order(scores: dict[Arm, float]) -> str:
    return " > ".join(arm.name for arm in sorted(scores, key=scores.get, reverse=True))


def _pretraining_rows(results: Results) -> Rows:
    """Perplexities where the paper has some."""
    arms, models = arms_named(results.experiment.arms), results.pretrainings
    names = list(dict.fromkeys(n for p in models.values() for n in p.scores))
    header: list[object] = ["model", *(name.replace("_", " ") for name in names)]
    rows = [[model, *map(p.scores.get, names)] for model, p in models.items()]
    if all(arm.perplexity for arm in arms.values()):
        header += ["perplexity of masked pieces", "the paper's"]
        for row, (model, pretraining) in zip(rows, models.items(), strict=True):
            loss = pretraining.scores.get("held_out_masked_lm_loss", math.nan)
            row += [math.exp(loss), arms[model].perplexity]
    return [header, *rows]


def _seed_rows(results: Results) -> Rows:
    rows: Rows = [["arm", "task", "learning rate", "of each seed"]]
    for (arm, column), score in results.scores.items():
        each = ", ".join(f"{value:.1f}" for value in score.seeds)
        rows.append([arm, column, f"{score.learning_rate:g}", each])
    return rows


def _cost_rows(results: Results) -> Rows:
    costs = results.costs | {"all": sum(results.costs.values())}
    return [
        ["stage", "hours:minutes:seconds"],
        *([stage, str(timedelta(seconds=round(seconds)))] for stage, seconds in costs.items()),
    ]


def _charts(results: Results) -> dict[str, Html]:
    """The losses of pretraining, then the score on dev of each task and, where arms are of several
    steps, by their steps."""
    charts = {}
    for name, side, title in (
        ("pretraining-loss", "train", "training loss, masked or next pieces"),
        ("held-out-loss", "held_out", "held-out loss, masked or next pieces"),
    ):
        lines = [
            Line(label=model, group=model, points=_points(pretraining.curves, side))
            for model, pretraining in results.pretrainings.items()
        ]
        charts[name] = line_chart(title, lines)
    for column in results.columns:
        charts[slug(column.name)] = line_chart(
            f"{column.name}: {column.score} on dev", _dev_lines(results, column)
        )
        if len(set(results.steps.values())) > 1:
            name = f"{slug(column.name)}-by-steps"
            title = f"{column.name} by steps of pretraining"
            charts[name] = line_chart(title, _lines_by_steps(results, column))
    return charts


def _lines_by_steps(results: Results, column: Column) -> list[Line]:
    points: dict[str, list[tuple[float, float]]] = {}
    for arm in results.experiment.arms:
        if (score := results.score(arm, column)) is not None:
            points.setdefault(arm.pretraining_name, []).append(
                (results.steps[arm.name], score.mean)
            )
    return [Line(label=name, group=name, points=line) for name, line in points.items()]


def _points(curves: dict, side: str) -> Sequence[tuple[float, float]]:
    """With one output Keras has its loss as the total alone."""
    return curves.get((side, "loss/masked_lm")) or curves.get((side, "loss/total"), [])


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


def _html(title: str, lead: list[str], parts: list, charts: dict[str, Html]) -> Html:
    content = [element("ul", *(element("li", line) for line in lead))]
    for heading, notes, rows in parts:
        content += [element("h2", heading), *(element("p", n, class_="note") for n in notes)]
        if rows is None:
            content.append(element("div", *charts.values(), class_="charts"))
        else:
            content.append(table(rows[0], rows[1:]))
    return page(title, *content)


def _markdown(title: str, lead: list[str], parts: list, charts: list[str]) -> str:
    blocks = [[f"# {title}"], [f"- {line}" for line in lead]]
    for heading, notes, rows in parts:
        blocks += [[f"## {heading}"], *([note] for note in notes)]
        if rows is None:
            blocks.append([f"![{name}](curves/{name}.svg)" for name in charts])
        else:
            blocks.append(pipes(rows))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"
