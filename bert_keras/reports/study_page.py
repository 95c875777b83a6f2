"""Writes the report of a study: the spread of its runs and their curves."""

import dataclasses
import json
from pathlib import Path

from markupsafe import Markup

from bert_keras.reports.charts import Line, line_chart, svg
from bert_keras.reports.page import Report, Section, Table, number
from bert_keras.reports.spread import OneRate, OneRun, Spread
from bert_keras.storage import write_text
from bert_keras.training.curves import Curve

Curves = dict[str, dict[str, dict[str, Curve]]]  # folder of a run -> as `read_curves` gives them

NOTE = "One line a run, one colour a learning rate, degenerate runs dashed."


def write_report(output: Path, spread: Spread, curves: Curves) -> None:
    """Writes study.json, report.html and report.md with its charts into `output`."""
    outcome = {
        "metric": spread.metric,
        "best_run": spread.best_run.folder,
        "best_learning_rate": spread.best_rate.learning_rate,
        "learning_rates": [dataclasses.asdict(rate) for rate in spread.rates],
        "runs": [dataclasses.asdict(run) for run in spread.runs],
        "runs_planned": spread.planned,
    }
    write_text(output / "study.json", json.dumps(outcome, indent=2) + "\n")
    by_rate = f"{spread.metric} by learning rate"
    report = Report(
        title=str(output),
        lead=_lead(spread),
        sections=[
            Section(heading=by_rate, table=_rate_table(spread)),
            Section(heading="Curves", notes=[NOTE], charts=_charts(spread, curves)),
            Section(heading="Runs", table=_run_table(spread)),
        ],
    )
    report.write(output)


def told(spread: Spread) -> str:
    """Formats the outcome for a terminal."""
    return "\n".join([f"{spread.metric} on dev:", *_rate_table(spread).aligned(), *_lead(spread)])


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


def _charts(spread: Spread, curves: Curves) -> dict[str, Markup]:
    """The training loss, and the loss and the metric on held-out rows, one chart each."""
    kinds = {
        "training-loss": ("train", "loss/total", "training loss"),
        "dev-loss": ("held_out", "loss/total", "loss on dev"),
        "dev-score": ("held_out", f"score/{spread.metric}", f"{spread.metric} on dev"),
    }
    return {
        name: svg(
            line_chart(title, [_line(run, curves[run.folder], side, tag) for run in spread.runs])
        )
        for name, (side, tag, title) in kinds.items()
    }


def _line(run: OneRun, curves: dict[str, dict[str, Curve]], side: str, tag: str) -> Line:
    return Line(
        label=f"learning rate {run.learning_rate:g}, seed {run.seed}",
        group=f"{run.learning_rate:g}",
        points=curves.get(side, {}).get(tag, []),
        dashed=bool(run.degenerate),
    )


def _rate_table(spread: Spread) -> Table:
    header = [field.name.replace("_", " ") for field in dataclasses.fields(OneRate)]
    rows = [dataclasses.astuple(rate) for rate in spread.rates]
    return Table(header, [[f"{rate:g}", *others] for rate, *others in rows])


def _run_table(spread: Spread) -> Table:
    """Every run with all its scores, the metric first."""
    every = (name for run in spread.runs for name in run.scores)
    names = list(dict.fromkeys([spread.metric, *every]))
    return Table(
        ["run", *(name.replace("_", " ") for name in names), ""],
        [
            [run.folder, *map(run.scores.get, names), "degenerate" if run.degenerate else ""]
            for run in spread.runs
        ],
    )
