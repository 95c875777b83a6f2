"""Repeats a run with several seeds and learning rates, each in its own folder."""

import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from bert_keras.distribution.strategy import check_one_machine
from bert_keras.errors import InputError
from bert_keras.reports.study import (
    Curves,
    StudyResults,
    StudyRun,
    degenerate,
    summary,
    write_report,
)
from bert_keras.runs.outcome import RECIPE, read_scores
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.training.curves import read_curves
from bert_keras.training.evaluations import DivergedError


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
    below all others.

    Args:
        run: Runs a recipe in a folder, writes TensorBoard logs to its subfolder "logs", and returns
            the scores.
        recipe: The recipe of all runs; its seed and learning rate are replaced.
        metric: The name of a score that `run` returns; a higher value must be better.
        seeds: The number of seeds.
        learning_rates: The learning rates.
        output: The folder of the study. Each run has a subfolder such as lr-3e-05/seed-1. After
            every run the folder contains study.json, report.html, report.md and `best`, a symbolic
            link to the folder of the best run.

    Returns:
        A summary of the results as text.

    Raises:
        InputError: An argument is out of range, `output` contains a single run, TF_CONFIG names
            several workers, all runs diverge, or a run fails with another InputError.
    """
    check_one_machine()
    output = Path(output)
    if seeds < 1:
        raise InputError(f"the number of seeds is {seeds}; expected at least 1")
    if not learning_rates:
        raise InputError("the list of learning rates is empty; expected one or more")
    if (output / RECIPE).exists():
        raise InputError(f"{output} contains a single run; choose another folder for a study")
    planned = [
        dataclasses.replace(recipe, learning_rate=rate, seed=seed)
        for rate in dict.fromkeys(learning_rates)
        for seed in range(1, seeds + 1)
    ]
    results = StudyResults(metric=metric, planned=len(planned), runs=())
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
        start = time.monotonic()
        try:
            scores = run(run_recipe, output / folder)
            curves[folder] = read_curves(output / folder / "logs")
            losses = [loss for _, loss in curves[folder]["train"]["loss/total"]]
            reason = degenerate(scores, metric=metric, losses=losses)
        except DivergedError as error:
            scores, reason = {}, error.reason
        if not is_finished:
            seconds.append(time.monotonic() - start)
        finished = StudyRun(
            folder=folder,
            learning_rate=run_recipe.learning_rate,
            seed=run_recipe.seed,
            scores=scores,
            degenerate=reason,
        )
        results = dataclasses.replace(results, runs=(*results.runs, finished))
        _write(output, results, curves)
    if not curves:
        raise InputError(
            f"every run of the study has diverged, the last because {reason}; start again with "
            "lower learning rates"
        )
    return summary(results)


def _write(output: Path, results: StudyResults, curves: Curves) -> None:
    """Links the best run and writes the report; does nothing until a run has scores."""
    if not curves:
        return
    link = output / f".best.{os.getpid()}.part"
    link.unlink(missing_ok=True)
    link.symlink_to(results.best_run.folder)
    os.replace(link, output / "best")
    write_report(output, results, curves)
