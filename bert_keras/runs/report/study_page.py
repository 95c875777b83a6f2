"""A study's runs and curves in, report.html and report.md with tables and drawings out."""

import json
from pathlib import Path

from bert_keras.runs.report.charts import Line, line_chart
from bert_keras.runs.report.page import Html, element, number, page, table, write_text
from bert_keras.training.curves import Curve

Curves = dict[str, dict[str, dict[str, Curve]]]  # folder of a run -> as `read_curves` gives them

RATES = ("learning rate", "median", "best", "worst", "standard deviation", "runs", "degenerate")


def write_report(output: Path, summary: dict, curves: Curves) -> None:
    """study.json, report.html, report.md and, for the latter, curves/*.svg."""
    charts = _charts(summary, curves)
    write_text(output / "study.json", json.dumps(summary, indent=2) + "\n")
    write_text(output / "report.html", _html(summary, charts))
    for name, chart in charts.items():
        write_text(output / "curves" / f"{name}.svg", chart)
    write_text(output / "report.md", _markdown(summary, list(charts)))


def _charts(summary: dict, curves: Curves) -> dict[str, Html]:
    """The training loss, and the loss and the metric on held-out rows, one drawing each."""
    metric = summary["metric"]
    shown = {
        "training-loss": ("train", "loss/total", "training loss"),
        "dev-loss": ("held_out", "loss/total", "loss on dev"),
        "dev-score": ("held_out", f"score/{metric}", f"{metric} on dev"),
    }
    return {
        name: line_chart(
            title,
            [
                Line(
                    label=f"learning rate {run['learning_rate']:g}, seed {run['seed']}",
                    group=f"{run['learning_rate']:g}",
                    points=curves[run["folder"]].get(side, {}).get(tag, []),
                    dashed=bool(run["degenerate"]),
                )
                for run in summary["runs"]
            ],
        )
        for name, (side, tag, title) in shown.items()
    }


def _lead(summary: dict) -> list[str]:
    """The outcome in sentences."""
    metric, runs = summary["metric"], summary["runs"]
    best = next(run for run in runs if run["folder"] == summary["best_run"])
    lines = [
        f"Best run: {best['folder']}, {metric} {number(summary['best'])} on the dev rows; "
        f"its model is best/model.",
        f"Best median: learning rate {summary['learning_rate']:g}.",
    ]
    if len(runs) < summary["runs_planned"]:
        lines.append(f"{len(runs)} of {summary['runs_planned']} runs have ended so far.")
    lines += [f"Degenerate: {r['folder']}, {r['degenerate']}." for r in runs if r["degenerate"]]
    return lines


def _rate_rows(summary: dict) -> list[list]:
    return [
        [f"{rate['learning_rate']:g}", *(rate[name.replace(" ", "_")] for name in RATES[1:])]
        for rate in summary["learning_rates"]
    ]


def _run_rows(summary: dict) -> tuple[list[str], list[list]]:
    """Every run with all its scores."""
    metric = summary["metric"]
    names = dict.fromkeys([metric, *(name for run in summary["runs"] for name in run["scores"])])
    rows = [
        [
            run["folder"],
            *(_score(run["scores"].get(name)) for name in names),
            "degenerate" if run["degenerate"] else "",
        ]
        for run in summary["runs"]
    ]
    return ["run", *(name.replace("_", " ") for name in names), ""], rows


def _score(value: object) -> object:
    return value if isinstance(value, int | float) or value is None else str(value)


def _html(summary: dict, charts: dict[str, Html]) -> Html:
    header, rows = _run_rows(summary)
    return page(
        summary["title"],
        element("ul", *(element("li", line) for line in _lead(summary))),
        element("h2", f"{summary['metric']} by learning rate"),
        table(RATES, _rate_rows(summary)),
        element("h2", "Curves"),
        element("p", "One line a run, one colour a learning rate, degenerate runs dashed.",
                class_="note"),
        element("div", *charts.values(), class_="charts"),
        element("h2", "Runs"),
        table(header, rows),
    )  # fmt: skip


def _markdown(summary: dict, charts: list[str]) -> str:
    header, rows = _run_rows(summary)
    return "\n".join(
        [
            f"# {summary['title']}",
            "",
            *(f"- {line}" for line in _lead(summary)),
            "",
            f"## {summary['metric']} by learning rate",
            "",
            *_pipes(RATES, _rate_rows(summary)),
            "",
            "## Curves",
            "",
            "One line a run, one colour a learning rate, degenerate runs dashed.",
            "",
            *(f"![{name}](curves/{name}.svg)" for name in charts),
            "",
            "## Runs",
            "",
            *_pipes(header, rows),
            "",
        ]
    )


def _pipes(header, rows) -> list[str]:
    cells = [[c if isinstance(c, str) else number(c) for c in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [list(header), ["---"] * len(header), *cells]]
