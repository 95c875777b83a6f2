"""Repeats a run with several seeds and learning rates, and reports median, best and spread."""

import dataclasses
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from markupsafe import Markup

from bert_keras.distribution.strategy import check_one_machine
from bert_keras.errors import InputError, check
from bert_keras.files import write_json
from bert_keras.reports.charts import Line, line_chart, svg
from bert_keras.reports.page import Report, Section, Table, format_number
from bert_keras.runs.outcome import RECIPE, read_scores
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.training.curves import Curve, read_curves
from bert_keras.training.evaluations import DivergedError, rank

Curves = dict[str, dict[str, dict[str, Curve]]]  # folder of a run -> result of `read_curves`
NOTE = "Each line is a run, each colour a learning rate."
# Name of a chart -> title, side of the logs and tag; {} is replaced by the metric.
CHARTS = {
    "training-loss": ("training loss", "train", "loss/total"),
    "dev-loss": ("loss on dev", "held_out", "loss/total"),
    "dev-score": ("{} on dev", "held_out", "score/{}"),
}


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """A finished run of a study."""

    folder: str
    learning_rate: float
    seed: int
    scores: dict  # {} if the training has diverged
    diverged: str = ""  # the reason; "" if it did not


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """The finished runs of a study."""

    metric: str  # the name of a score; a higher value is better
    planned: int  # number of runs of the whole study
    runs: tuple[StudyRun, ...] = ()

    @property
    def rates(self) -> list[dict]:
        """The median, best and spread (best minus worst) of the metric for each learning rate."""
        rows = []
        for rate in dict.fromkeys(run.learning_rate for run in self.runs):
            scores = [self.score(run) for run in self.runs if run.learning_rate == rate]
            spread = max(scores) - min(scores)
            rows.append(
                {
                    "learning_rate": rate,
                    "median": statistics.median(scores),
                    "best": max(scores),
                    "spread": spread if math.isfinite(spread) else None,
                    "runs": len(scores),
                }
            )
        return rows

    @property
    def best_rate(self) -> float:
        """The learning rate with the best median."""
        return max(self.rates, key=lambda rate: rate["median"])["learning_rate"]

    @property
    def best_run(self) -> StudyRun:
        """The run with the best score over all learning rates."""
        return max((run for run in self.runs if run.scores), key=self.score)

    def score(self, run: StudyRun) -> float:
        """Returns the metric of a run for comparisons, minus infinity for NaN or no scores."""
        return rank(run.scores.get(self.metric, math.nan))


def study(
    run: Callable[[FinetuneRecipe, Path], dict],
    recipe: FinetuneRecipe,
    *,
    metric: str,
    seeds: int,
    learning_rates: Sequence[float],
    output: str | os.PathLike,
) -> str:
    """Runs a recipe with each learning rate and the seeds 1 to `seeds`.

    A second call with the same arguments continues an interrupted study. A run that diverges ranks
    below all others. After every run `output` contains study.json, report.html, report.md and
    `best`, a symbolic link to the folder of the best run, such as lr-3e-05/seed-1.

    Args:
        run: Runs a recipe in a folder, writes TensorBoard logs to its subfolder "logs", and returns
            the scores.
        recipe: The recipe of all runs; its seed and learning rate are replaced.
        metric: The name of a score that `run` returns; a higher value must be better.
        seeds: The number of seeds.
        learning_rates: The learning rates.
        output: The folder of the study.

    Returns:
        A summary of the results as text.

    Raises:
        InputError: An argument is out of range, `output` contains a single run, TF_CONFIG names
            several workers, or all runs diverge.
    """
    check_one_machine()
    output = Path(output)
    check(
        seeds >= 1 and learning_rates,
        f"received {seeds} seeds and {len(learning_rates)} learning rates; expected at least 1",
    )
    check(
        not (output / RECIPE).exists(),
        f"{output} contains a single run; choose another folder for a study",
    )
    planned = [
        dataclasses.replace(recipe, learning_rate=rate, seed=seed)
        for rate in dict.fromkeys(learning_rates)
        for seed in range(1, seeds + 1)
    ]
    results = StudyResults(metric=metric, planned=len(planned))
    curves: Curves = {}
    seconds: list[float] = []
    for number, run_recipe in enumerate(planned, start=1):
        folder = f"lr-{run_recipe.learning_rate:g}/seed-{run_recipe.seed}"
        is_finished = read_scores(output / folder) is not None
        line = f"run {number} of {len(planned)}, {folder}"
        if is_finished:
            line += ", is finished already"
        elif seconds:
            seconds_left = round(statistics.mean(seconds) * (len(planned) - number + 1))
            line += f", about {timedelta(seconds=seconds_left)} left"
        print(line, file=sys.stderr, flush=True)
        start, scores, reason = time.monotonic(), {}, ""
        try:
            scores = run(run_recipe, output / folder)
            curves[folder] = read_curves(output / folder / "logs")
        except DivergedError as error:
            reason = error.reason
        if not is_finished:
            seconds.append(time.monotonic() - start)
        finished = StudyRun(
            folder=folder,
            learning_rate=run_recipe.learning_rate,
            seed=run_recipe.seed,
            scores=scores,
            diverged=reason,
        )
        results = dataclasses.replace(results, runs=(*results.runs, finished))
        if curves:
            _write(output, results, curves)
    if not curves:
        raise InputError(
            f"every run of the study has diverged, the last because {reason}; start again with "
            "lower learning rates"
        )
    return "\n".join([f"{metric} on dev:", *_rate_table(results).aligned(), *_lead(results)])


def _write(output: Path, results: StudyResults, curves: Curves) -> None:
    """Links the best run and writes study.json and the report."""
    link = output / f".best.{os.getpid()}.part"
    link.unlink(missing_ok=True)
    link.symlink_to(results.best_run.folder)
    os.replace(link, output / "best")
    rates = [{k: None if v == -math.inf else v for k, v in rate.items()} for rate in results.rates]
    outcome = {
        "metric": results.metric,
        "best_run": results.best_run.folder,
        "best_learning_rate": results.best_rate,
        "learning_rates": rates,
        "runs": [dataclasses.asdict(run) for run in results.runs],
        "runs_planned": results.planned,
    }
    write_json(output / "study.json", outcome)
    names = dict.fromkeys([results.metric, *(name for run in results.runs for name in run.scores)])
    rows = [
        [run.folder, *map(run.scores.get, names), "diverged" if run.diverged else ""]
        for run in results.runs
    ]
    header = ["run", *(name.replace("_", " ") for name in names), ""]
    by_rate = f"{results.metric} by learning rate"
    Report(
        title=str(output),
        lead=_lead(results),
        sections=[
            Section(heading=by_rate, table=_rate_table(results)),
            Section(heading="Curves", notes=[NOTE], charts=_charts(results, curves)),
            Section(heading="Runs", table=Table(header, rows)),
        ],
    ).write(output)


def _lead(results: StudyResults) -> list[str]:
    best, runs = results.best_run, results.runs
    score = format_number(results.score(best))
    lines = [
        f"Best run: {best.folder}, {results.metric} {score}; its model is best/model.",
        f"Best median: learning rate {results.best_rate:g}.",
    ]
    if len(runs) < results.planned:
        lines.append(f"{len(runs)} of {results.planned} runs have ended so far.")
    return lines + [f"Diverged: {r.folder}, {r.diverged}." for r in runs if r.diverged]


def _rate_table(results: StudyResults) -> Table:
    rows = [[f"{rate:g}", *others] for rate, *others in map(dict.values, results.rates)]
    return Table([name.replace("_", " ") for name in results.rates[0]], rows)


def _charts(results: StudyResults, curves: Curves) -> dict[str, Markup]:
    """Draws one chart each for the training loss, the dev loss (if any) and the dev metric."""
    charts = {}
    for name, (title, side, tag) in CHARTS.items():
        lines = [
            Line(
                label=f"learning rate {run.learning_rate:g}, seed {run.seed}",
                group=f"{run.learning_rate:g}",
                points=curves.get(run.folder, {}).get(side, {}).get(tag.format(results.metric), []),
            )
            for run in results.runs
        ]
        if any(line.points for line in lines):
            charts[name] = svg(line_chart(title.format(results.metric), lines))
    return charts
