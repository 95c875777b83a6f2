"""A run and the seeds and learning rates to try it with in, their spread and the best out."""

import dataclasses
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.runs.outcome import RECIPE, read_scores
from bert_keras.runs.report.study_page import write_report
from bert_keras.training.curves import Curve, read_curves

Run = Callable[..., dict]  # (recipe, output folder) -> scores


def study(
    run: Run,
    recipe,
    *,
    title: str,
    metric: str,
    seeds: int,
    learning_rates: Sequence[float],
    output: str | os.PathLike,
) -> dict:
    """Do `run` for each learning rate with `seeds` seeds, from that of the recipe on, each in its
    folder `output`/lr-3e-05/seed-1; the same call goes on where one was interrupted.

    More is better in `metric`, one of the scores that `run` returns. Its logs are in "logs" of its
    folder. After every run `output` holds study.json (what is returned), report.html, report.md and
    `best`, a link to the folder of the best run so far. Raises InputError where a run does.
    """
    output = Path(output)
    trials = _trials(recipe, seeds=seeds, learning_rates=learning_rates)
    if (output / RECIPE).exists():
        raise InputError(f"{output} holds a single run; choose another folder for several")
    runs: list[dict] = []
    curves: dict[str, dict[str, dict[str, Curve]]] = {}
    seconds: list[float] = []
    for number, trial in enumerate(trials, start=1):
        folder = f"lr-{trial.learning_rate:g}/seed-{trial.seed}"
        ended = read_scores(output / folder) is not None
        told = f"run {number} of {len(trials)}, {folder}"
        if ended:
            told += ", has ended before"
        elif seconds:
            told += f", {_duration(statistics.mean(seconds) * (len(trials) - number + 1))} left"
        print(told, file=sys.stderr, flush=True)
        start = time.monotonic()
        scores = run(trial, output / folder)
        if not ended:
            seconds.append(time.monotonic() - start)
        curves[folder] = read_curves(output / folder / "logs")
        runs.append(
            {
                "folder": folder,
                "learning_rate": trial.learning_rate,
                "seed": trial.seed,
                "scores": scores,
                "degenerate": degenerate(
                    scores,
                    metric=metric,
                    losses=[loss for _, loss in curves[folder]["train"]["loss/total"]],
                ),
            }
        )
        summary = summarized(runs, title=title, metric=metric, planned=len(trials))
        _link(output / "best", summary["best_run"])
        write_report(output, summary, curves)
    return summary


def degenerate(scores: Mapping[str, float], *, metric: str, losses: Sequence[float]) -> str:
    """Why a run failed, as a sentence; "" where it did not.

    It failed where its score is no better than that of the majority answer (Mosbach et al. 2021,
    "On the Stability of Fine-tuning BERT", after Dodge et al. 2020), where its training loss did
    not fall from the first to the second half, or where either is no number. `scores` may hold the
    majority's score, such as "majority_accuracy"; where it does not the majority's is 0, as it is
    in correlations, MCC, and F1 of entities and answers. `losses` are the logged ones.
    """
    score, majority = scores[metric], scores.get(f"majority_{metric}", 0.0)
    if not math.isfinite(score) or not all(map(math.isfinite, losses)):
        return "its score or its loss is not a number"
    if score <= majority:
        return f"{metric} {score:.4g} is no better than the {majority:.4g} of the majority answer"
    if len(losses) > 1:
        half = len(losses) // 2
        first, second = statistics.mean(losses[:half]), statistics.mean(losses[half:])
        if second >= first:
            return f"its training loss did not fall, from {first:.4g} to {second:.4g} by halves"
    return ""


def summarized(runs: Sequence[dict], *, title: str, metric: str, planned: int) -> dict:
    """Median, best and spread of each learning rate; the rate of the best median, the best run."""
    scores = {run["folder"]: _rank(run["scores"][metric]) for run in runs}
    rates = []
    for rate in dict.fromkeys(run["learning_rate"] for run in runs):
        of_rate = [run for run in runs if run["learning_rate"] == rate]
        values = [scores[run["folder"]] for run in of_rate]
        rates.append(
            {
                "learning_rate": rate,
                "median": statistics.median(values),
                "best": max(values),
                "worst": min(values),
                "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
                "runs": len(of_rate),
                "degenerate": sum(bool(run["degenerate"]) for run in of_rate),
            }
        )
    best = max(scores, key=scores.get)
    return {
        "title": title,
        "metric": metric,
        "learning_rate": max(rates, key=lambda rate: rate["median"])["learning_rate"],
        "best_run": best,
        "best": scores[best],
        "learning_rates": rates,
        "runs": list(runs),
        "runs_planned": planned,
    }


def _trials(recipe, *, seeds: int, learning_rates: Sequence[float]) -> list:
    """The recipes, learning rate by learning rate."""
    if seeds < 1:
        raise InputError(f"{seeds} seeds came; expected at least one")
    if not learning_rates or not all(0 < rate < math.inf for rate in learning_rates):
        told = ", ".join(f"{rate:g}" for rate in learning_rates) or "none"
        raise InputError(f"the learning rates are {told}; expected one or more above 0")
    return [
        dataclasses.replace(recipe, learning_rate=rate, seed=recipe.seed + number)
        for rate in dict.fromkeys(learning_rates)
        for number in range(seeds)
    ]


def _rank(score: float) -> float:
    return -math.inf if math.isnan(score) else score


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def _link(path: Path, target: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    os.replace(beside, path)
