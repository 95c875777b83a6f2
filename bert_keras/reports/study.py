"""Reports the runs of a study: scores by learning rate, failed runs and curves."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from bert_keras.files import write_text
from bert_keras.reports.charts import Line, line_chart, svg
from bert_keras.reports.page import Report, Section, Table, format_number
from bert_keras.training.curves import Curve
from bert_keras.training.evaluations import rank

Curves = dict[str, dict[str, dict[str, Curve]]]  # folder of a run -> result of `read_curves`

NOTE = "Each line is a run, each colour a learning rate; the lines of degenerate runs are dashed."
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
    degenerate: str  # the reason why the run failed; "" if it did not


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """The finished runs of a study."""

    metric: str  # the name of a score; a higher value is better
    planned: int  # number of runs of the whole study
    runs: tuple[StudyRun, ...]

    @property
    def rates(self) -> list[dict]:
        """The statistics of the metric for each learning rate.

        study.json has them with null for minus infinity.
        """
        return [self._rate(rate) for rate in dict.fromkeys(run.learning_rate for run in self.runs)]

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

    def _rate(self, learning_rate: float) -> dict:
        runs = [run for run in self.runs if run.learning_rate == learning_rate]
        scores = [self.score(run) for run in runs]
        has_deviation = len(scores) > 1 and all(map(math.isfinite, scores))
        return {
            "learning_rate": learning_rate,
            "median": statistics.median(scores),
            "best": max(scores),
            "worst": min(scores),
            "standard_deviation": statistics.stdev(scores) if has_deviation else None,
            "runs": len(runs),
            "degenerate": sum(bool(run.degenerate) for run in runs),
        }


def degenerate(scores: Mapping[str, float], *, metric: str, losses: Sequence[float]) -> str:
    """Returns the reason why a run failed, as a sentence, or "" if it did not fail.

    A run has failed in one of three cases. Its score is no better than that of the majority class
    (Mosbach et al. 2021, "On the Stability of Fine-tuning BERT", after Dodge et al. 2020). The mean
    of its training loss does not fall from the first to the second half. Its score or its loss is
    not finite.

    Args:
        scores: The scores of the run, with the score of the majority class for `metric` or a part
            of it, such as "majority_accuracy" for "accuracy_and_f1". If this is missing it is 0, as
            for MCC, correlations, and F1 of entities and answers.
        metric: The name of the score that is compared.
        losses: The logged training losses.
    """
    if not math.isfinite(scores[metric]) or not all(map(math.isfinite, losses)):
        return "its score or its loss is not a number"
    parts = [name for name in (metric, *metric.split("_and_")) if f"majority_{name}" in scores]
    for name in parts or [metric]:
        score, majority = scores[name], scores.get(f"majority_{name}", 0.0)
        if score <= majority:
            return f"{name} {score:.4g} is no better than the {majority:.4g} of the majority class"
    if len(losses) > 1:
        half = len(losses) // 2
        first, second = statistics.mean(losses[:half]), statistics.mean(losses[half:])
        if second >= first:
            return f"its training loss did not fall: {first:.4g}, in the second half {second:.4g}"
    return ""


def write_report(output: Path, results: StudyResults, curves: Curves) -> None:
    """Writes study.json, report.html, and report.md with its charts.

    Args:
        output: The folder of the study.
        results: The finished runs.
        curves: The curves of the runs with scores, by folder.
    """
    outcome = {
        "metric": results.metric,
        "best_run": results.best_run.folder,
        "best_learning_rate": results.best_rate,
        "learning_rates": [
            {name: None if value == -math.inf else value for name, value in rate.items()}
            for rate in results.rates
        ],
        "runs": [dataclasses.asdict(run) for run in results.runs],
        "runs_planned": results.planned,
    }
    write_text(output / "study.json", json.dumps(outcome, indent=2) + "\n")
    by_rate = f"{results.metric} by learning rate"
    report = Report(
        title=str(output),
        lead=_lead(results),
        sections=[
            Section(heading=by_rate, table=_rate_table(results)),
            Section(heading="Curves", notes=[NOTE], charts=_charts(results, curves)),
            Section(heading="Runs", table=_run_table(results)),
        ],
    )
    report.write(output)


def summary(results: StudyResults) -> str:
    """Formats the results of a study for a terminal."""
    heading = f"{results.metric} on dev:"
    return "\n".join([heading, *_rate_table(results).aligned(), *_lead(results)])


def _lead(results: StudyResults) -> list[str]:
    best, runs = results.best_run, results.runs
    score = format_number(results.score(best))
    lines = [
        f"Best run: {best.folder}, {results.metric} {score}; its model is best/model.",
        f"Best median: learning rate {results.best_rate:g}.",
    ]
    if len(runs) < results.planned:
        lines.append(f"{len(runs)} of {results.planned} runs have ended so far.")
    return lines + [f"Degenerate: {r.folder}, {r.degenerate}." for r in runs if r.degenerate]


def _charts(results: StudyResults, curves: Curves) -> dict[str, Markup]:
    """Draws one chart each for the training loss, the dev loss (if any) and the dev metric."""
    charts = {}
    for name, (title, side, tag) in CHARTS.items():
        lines = [
            Line(
                label=f"learning rate {run.learning_rate:g}, seed {run.seed}",
                group=f"{run.learning_rate:g}",
                points=curves.get(run.folder, {}).get(side, {}).get(tag.format(results.metric), []),
                dashed=bool(run.degenerate),
            )
            for run in results.runs
        ]
        if any(line.points for line in lines):
            charts[name] = svg(line_chart(title.format(results.metric), lines))
    return charts


def _rate_table(results: StudyResults) -> Table:
    rows = [[f"{rate:g}", *others] for rate, *others in map(dict.values, results.rates)]
    return Table([name.replace("_", " ") for name in results.rates[0]], rows)


def _run_table(results: StudyResults) -> Table:
    """Returns every run with all its scores, the metric first."""
    names = dict.fromkeys([results.metric, *(name for run in results.runs for name in run.scores)])
    rows = [
        [run.folder, *map(run.scores.get, names), "degenerate" if run.degenerate else ""]
        for run in results.runs
    ]
    return Table(["run", *(name.replace("_", " ") for name in names), ""], rows)
