"""Repeats a run with several seeds and learning rates, each in its own folder."""

import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.reports.study import Curves, OneRun, Spread, degenerate, told, write_report
from bert_keras.runs.outcome import RECIPE, read_scores
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.training.curves import read_curves


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

    A second call with the same arguments continues an interrupted study.

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
        InputError: An argument is out of range, `output` contains a single run, or a run fails with
            InputError.
    """
    output = Path(output)
    if seeds < 1:
        raise InputError(f"{seeds} seeds came; expected at least one")
    if not learning_rates:
        raise InputError("no learning rates came; expected one or more")
    if (output / RECIPE).exists():
        raise InputError(f"{output} holds a single run; choose another folder for several")
    planned = [
        dataclasses.replace(recipe, learning_rate=rate, seed=seed)
        for rate in dict.fromkeys(learning_rates)
        for seed in range(1, seeds + 1)
    ]
    spread = Spread(metric=metric, planned=len(planned), runs=())
    curves: Curves = {}
    seconds: list[float] = []
    for number, each in enumerate(planned, start=1):
        folder = f"lr-{each.learning_rate:g}/seed-{each.seed}"
        ended = read_scores(output / folder) is not None
        line = f"run {number} of {len(planned)}, {folder}"
        if ended:
            line += ", has ended before"
        elif seconds:
            left = statistics.mean(seconds) * (len(planned) - number + 1)
            line += f", about {timedelta(seconds=round(left))} left"
        print(line, file=sys.stderr, flush=True)
        start = time.monotonic()
        scores = run(each, output / folder)
        if not ended:
            seconds.append(time.monotonic() - start)
        curves[folder] = read_curves(output / folder / "logs")
        losses = [loss for _, loss in curves[folder]["train"]["loss/total"]]
        one = OneRun(
            folder=folder,
            learning_rate=each.learning_rate,
            seed=each.seed,
            scores=scores,
            degenerate=degenerate(scores, metric=metric, losses=losses),
        )
        spread = Spread(metric=metric, planned=len(planned), runs=(*spread.runs, one))
        _link(output / "best", spread.best_run.folder)
        write_report(output, spread, curves)
    return told(spread)


def _link(path: Path, target: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    os.replace(beside, path)
