"""Repeats a run with several seeds and learning rates, and reports median, best and spread."""

import dataclasses
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bert_keras.distribution.strategy import check_one_machine
from bert_keras.files import StrPath, refuse_existing, write_json
from bert_keras.reports.page import Report, Section, Table, shown
from bert_keras.runs.outcome import RECIPE
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.training.evaluations import DivergedError, rank


def study(
    run: Callable[[FinetuneRecipe, Path], dict],
    recipe: FinetuneRecipe,
    *,
    metric: str,
    seeds: int,
    learning_rates: Sequence[float],
    output: StrPath,
) -> str:
    """Runs a recipe with several learning rates and seeds; returns a summary as text.

    A second call with the same arguments continues an interrupted study. A run that diverges ranks
    below all other runs. After every run `output` contains study.json, report.html, report.md and
    `best`, a symbolic link to the folder of the best run, such as lr-3e-05/seed-1.

    Args:
        recipe: The recipe whose learning rate and seed are replaced.
        metric: The name of the score that ranks the runs; higher is better.
        seeds: The number of seeds, which are 1, 2, ...
        learning_rates: The learning rates; repeated ones count once.
    """
    check_one_machine()
    output = Path(output)
    if (output / RECIPE).exists():
        refuse_existing(output)  # a single run
    planned = [
        dataclasses.replace(recipe, learning_rate=rate, seed=seed)
        for rate in dict.fromkeys(learning_rates)
        for seed in range(1, seeds + 1)
    ]
    runs, summary = [], ""
    diverged = None  # the last DivergedError
    for index, each in enumerate(planned, start=1):
        folder = f"lr-{each.learning_rate:g}/seed-{each.seed}"
        print(f"run {index} of {len(planned)}: {folder}", file=sys.stderr, flush=True)
        scores, reason = {}, ""
        try:
            scores = run(each, output / folder)
        except DivergedError as error:
            diverged, reason = error, error.reason
        values = {"learning_rate": each.learning_rate, "seed": each.seed}
        runs.append({"folder": folder, **values, "scores": scores, "diverged": reason})
        if any(one["scores"] for one in runs):
            summary = _write(output, runs, metric=metric, num_planned=len(planned))
    if diverged is not None and not summary:  # every run has diverged
        raise diverged
    return summary


def _write(output: Path, runs: list[dict], *, metric: str, num_planned: int) -> str:
    """Links the best run, writes study.json and the report, and returns the summary.

    `runs` are the rows of study.json. A run that diverged has no scores.
    """
    scores: dict[float, list[float]] = {}  # learning rate -> scores; -inf if a run diverged
    for run in runs:
        score = rank(run["scores"].get(metric, math.nan))
        scores.setdefault(run["learning_rate"], []).append(score)
    best_rate = max(scores, key=lambda rate: statistics.median(scores[rate]))
    best = max((run for run in runs if run["scores"]), key=lambda run: rank(run["scores"][metric]))
    rates = [  # rows of the table of learning rates
        {
            "learning_rate": rate,
            "median": _finite(statistics.median(values)),
            "best": _finite(max(values)),
            "spread": _finite(max(values) - min(values)),
            "runs": len(values),
        }
        for rate, values in scores.items()
    ]
    outcome = {"metric": metric, "best_run": best["folder"], "best_learning_rate": best_rate}
    outcome |= {"learning_rates": rates, "runs": runs, "runs_planned": num_planned}
    link = output / ".best.part"
    link.unlink(missing_ok=True)
    link.symlink_to(best["folder"])
    link.replace(output / "best")
    write_json(output / "study.json", outcome)
    score = shown(best["scores"][metric])
    lead = [f"Best run: {best['folder']}, {metric} {score}; its model is best/model."]
    lead.append(f"Best median: learning rate {best_rate:g}.")
    if len(runs) < num_planned:
        lead.append(f"{len(runs)} of {num_planned} runs have ended so far.")
    lead += [f"Diverged: {run['folder']}, {run['diverged']}." for run in runs if run["diverged"]]
    names = dict.fromkeys([metric, *(name for run in runs for name in run["scores"])])
    rate_rows = [[f"{rate:g}", *others] for rate, *others in map(dict.values, rates)]
    rate_table = Table([name.replace("_", " ") for name in rates[0]], rate_rows)
    run_table = Table(
        ["run", *(name.replace("_", " ") for name in names)],
        [[run["folder"], *map(run["scores"].get, names)] for run in runs],
    )
    tables = {f"{metric} by learning rate": rate_table, "Runs": run_table}
    sections = [Section(heading=heading, table=table) for heading, table in tables.items()]
    Report(title=str(output), lead=lead, sections=sections).write(output)
    return "\n".join([f"{metric} on dev:", *rate_table.aligned(), *lead])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
