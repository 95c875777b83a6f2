"""The spread of runs and their curves in; report.html and report.md, tables and drawings, out."""

import dataclasses
import json
from pathlib import Path

from bert_keras.reports.charts import Line, line_chart
from bert_keras.reports.page import Html, element, number, page, pipes, shown, table
from bert_keras.reports.spread import OneRate, OneRun, Spread
from bert_keras.storage import write_text
from bert_keras.training.curves import Curve

Curves = dict[str, dict[str, dict[str, Curve]]]  # folder of a run -> as `read_curves` gives them
Rows = list[list[object]]  # a header, then values

NOTE = "One line a run, one colour a learning rate, degenerate runs dashed."


def write_report(output: Path, spread: Spread, curves: Curves) -> None:
    """study.json, report.html, report.md and, for the latter, curves/*.svg."""
    charts = _charts(spread, curves)
    outcome = {
        "metric": spread.metric,
        "best_run": spread.best_run.folder,
        "best_learning_rate": spread.best_rate.learning_rate,
        "learning_rates": [dataclasses.asdict(rate) for rate in spread.rates],
        "runs": [dataclasses.asdict(run) for run in spread.runs],
        "runs_planned": spread.planned,
    }
    write_text(output / "study.json", json.dumps(outcome, indent=2) + "\n")
    write_text(output / "report.html", _html(str(output), spread, charts))
    for name, chart in charts.items():
        write_text(output / "curves" / f"{name}.svg", chart)
    write_text(output / "report.md", _markdown(str(output), spread, list(charts)))


def told(spread: Spread) -> str:
    """The outcome in words, for a terminal."""
    header, *rows = [[shown(cell) for cell in row] for row in _rate_rows(spread)]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]
    return "\n".join([f"{spread.metric} on dev:", *lines, *_lead(spread)])


def _lead(spread: Spread) -> list[str]:
    best, runs = spread.best_run, spread.runs
    lines = [
        f"Best run: {best.folder}, {spread.metric} {number(spread.score(best))}; its model is "
        "best/model.",
        f"Best median: learning rate {spread.best_rate.learning_rate:g}.",
    ]
    if len(runs) < spread.planned:
        lines.append(f"{len(runs)} of {spread.planned} runs have ended so far.")
    return lines + [f"Degenerate: {r.folder}, {r.degenerate}." for r in runs if r.degenerate]


def _charts(spread: Spread, curves: Curves) -> dict[str, Html]:
    """The training loss, and the loss and the metric on held-out rows, one drawing each."""
    shown = {
        "training-loss": ("train", "loss/total", "training loss"),
        "dev-loss": ("held_out", "loss/total", "loss on dev"),
        "dev-score": ("held_out", f"score/{spread.metric}", f"{spread.metric} on dev"),
    }
    return {
        name: line_chart(title, [_line(run, curves[run.folder], side, tag) for run in spread.runs])
        for name, (side, tag, title) in shown.items()
    }


def _line(run: OneRun, curves: dict[str, dict[str, Curve]], side: str, tag: str) -> Line:
    return Line(
        label=f"learning rate {run.learning_rate:g}, seed {run.seed}",
        group=f"{run.learning_rate:g}",
        points=curves.get(side, {}).get(tag, []),
        dashed=bool(run.degenerate),
    )


def _rate_rows(spread: Spread) -> Rows:
    header = [field.name.replace("_", " ") for field in dataclasses.fields(OneRate)]
    rows = [list(dataclasses.astuple(rate)) for rate in spread.rates]
    return [header, *([f"{rate:g}", *others] for rate, *others in rows)]


def _run_rows(spread: Spread) -> Rows:
    """Every run with all its scores, the metric first."""
    every = (name for run in spread.runs for name in run.scores)
    names = list(dict.fromkeys([spread.metric, *every]))
    rows: Rows = [["run", *(name.replace("_", " ") for name in names), ""]]
    for run in spread.runs:
        scores = [run.scores.get(name) for name in names]
        rows.append([run.folder, *scores, "degenerate" if run.degenerate else ""])
    return rows


def _html(title: str, spread: Spread, charts: dict[str, Html]) -> Html:
    (rate_header, *rate_rows), (run_header, *run_rows) = _rate_rows(spread), _run_rows(spread)
    return page(
        title,
        element("ul", *(element("li", line) for line in _lead(spread))),
        element("h2", f"{spread.metric} by learning rate"),
        table(rate_header, rate_rows),
        element("h2", "Curves"),
        element("p", NOTE, class_="note"),
        element("div", *charts.values(), class_="charts"),
        element("h2", "Runs"),
        table(run_header, run_rows),
    )


def _markdown(title: str, spread: Spread, charts: list[str]) -> str:
    parts = [
        [f"# {title}"],
        [f"- {line}" for line in _lead(spread)],
        [f"## {spread.metric} by learning rate"],
        pipes(_rate_rows(spread)),
        ["## Curves"],
        [NOTE],
        [f"![{name}](curves/{name}.svg)" for name in charts],
        ["## Runs"],
        pipes(_run_rows(spread)),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
