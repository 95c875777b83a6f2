"""Runs an experiment: vocabulary, records, pretraining, fine-tuning and the report."""

import dataclasses
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bert_keras.distribution.strategy import check_one_machine
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.task import Task
from bert_keras.experiments.experiments import Arm, Experiment, ScoreColumn, slug
from bert_keras.experiments.scales import Scale
from bert_keras.files import StrPath, file_sha256, json_object, write_json
from bert_keras.reports.page import Report, Section, Table
from bert_keras.runs.finetune import finetune
from bert_keras.runs.outcome import claimed_output, read_scores
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.settings import read_task_data, with_changes
from bert_keras.runs.study import study
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab import train_vocabulary

SCORES = (
    "Scores on the dev sets in percent: the mean over the seeds ± standard deviation. Differences "
    "within the spread of the seeds have no meaning; each model is pretrained once, so its own "
    "seed is part of every difference."
)
PUBLISHED = "The paper's scores are for other, larger files."
PRETRAINING = (
    "All models read the same records. Left-to-right models have the loss of every next token, and "
    "other models have the loss of masked tokens. These losses are not comparable."
)


@dataclass(frozen=True)
class Score:
    """The score of one arm in one column at its best learning rate."""

    seeds: tuple[float, ...]  # the score of each seed that did not diverge, in percent
    learning_rate: float
    diverged: int  # number of runs that diverged

    def __str__(self) -> str:
        deviation = f" ± {statistics.stdev(self.seeds):.1f}" if len(self.seeds) > 1 else ""
        return f"{statistics.mean(self.seeds):.1f}{deviation}"


@dataclass(kw_only=True)
class Results:
    """The results of an experiment, which are added as runs end."""

    experiment: Experiment
    columns: tuple[ScoreColumn, ...]  # the columns whose files exist
    remarks: tuple[str, ...]  # sentences about the scale and missing columns
    pretrainings: dict[str, dict] = field(default_factory=dict)  # model -> scores
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)  # (arm, column) -> score


def reproduce(experiment: Experiment, scale: Scale, *, data: StrPath, output: StrPath) -> Results:
    """Runs an experiment, or continues an interrupted one with the same arguments.

    Args:
        experiment: The table to reproduce.
        scale: The sizes and recipes of all its runs.
        data: A folder with corpus/*.txt and folders of tasks.
        output: The folder to write. Its report is rewritten after each cell.
    """
    check_one_machine()
    corpus, files, missing = experiment.inputs(data)
    columns = tuple(column for column in experiment.columns if column.name in files)
    for column in columns:  # reports invalid files before hours of pretraining
        read_task_data(named_task(column.task), files[column.name])
    remarks = (f"Scale: {scale.note}", *missing, *scale.remarks(experiment))
    results = Results(experiment=experiment, columns=columns, remarks=remarks)
    settings = {
        "files": {os.path.relpath(file, data): file_sha256(file) for file in corpus},
        "table": experiment.name,
        "data": os.path.realpath(data),
        **dataclasses.asdict(scale),
    }
    with claimed_output(output, settings) as folder:
        print(*missing, sep="\n", file=sys.stderr)
        runs = Runs(folder, scale, corpus, files)
        models: dict[str, Path] = {}  # name of a pretrained model -> its folder
        for name, arm in experiment.models.items():
            print(f"{experiment.name}: pretrain {name}", file=sys.stderr, flush=True)
            models[name], results.pretrainings[name] = runs.pretrained(name, arm)
        for column in columns:
            for arm in experiment.arms:
                cell = f"{arm.name} on {column.name}"
                print(f"{experiment.name}: fine-tune {cell}", file=sys.stderr, flush=True)
                score = runs.score(arm, column, model=models[arm.pretraining_name])
                results.scores[arm.name, column.name] = score
                write_page(folder, results)
    return results


@dataclass(frozen=True)
class Runs:
    """The folder of an experiment: vocab.txt, records, pretrain/MODEL and
    finetune/ARM/COLUMN. Its methods return existing results and compute missing results.
    """

    folder: Path
    scale: Scale
    corpus: list[str]
    files: Mapping[str, dict[str, str]]  # the file of each split, by the name of a column

    def records(self) -> Path:
        """Returns the folder of the records, with which a vocabulary is learned."""
        folder, vocabulary_file = self.folder / "records", self.folder / "vocab.txt"
        if not vocabulary_file.is_file():
            train_vocabulary(self.corpus, size=self.scale.vocab_size).save(vocabulary_file)
        if not folder.is_dir():
            settings = BuildSettings(
                objective="nsp",
                max_length=self.scale.max_length,
                max_predictions=0,
                duplicates=self.scale.duplicates,
                held_out_rate=self.scale.held_out_rate,
                seed=self.scale.seed,
            )
            vocabulary = Vocabulary.from_file(vocabulary_file)
            build(self.corpus, vocabulary=vocabulary, output=folder, settings=settings)
        return folder

    def pretrained(self, name: str, arm: Arm) -> tuple[Path, dict]:
        """Pretrains the model of an arm; returns its folder and its scores."""
        folder = self.folder / "pretrain" / name
        if (scores := read_scores(folder)) is None:
            recipe = self.scale.pretraining(arm)
            scores = pretrain(recipe, records=self.records(), output=folder).scores
        return folder / "model", scores

    def score(self, arm: Arm, column: ScoreColumn, *, model: Path) -> Score:
        """Fine-tunes a model on the task of a cell, as a study, and returns its score."""
        folder = self.folder / "finetune" / slug(arm.name) / slug(column.name)
        task, recipe = cell_task(self.scale, arm, column)

        def run(recipe: FinetuneRecipe, output: Path) -> dict:
            if (scores := read_scores(output)) is not None:
                return scores
            inputs = {"pretrained": model, "data": self.files[column.name]}
            features = folder / "features"
            return finetune(task, recipe, **inputs, output=output, features=features).scores

        seeds, rates = self.scale.num_seeds, recipe.learning_rates
        study(run, recipe, metric=task.metric, seeds=seeds, learning_rates=rates, output=folder)
        return score_of(folder, column)


def cell_task(scale: Scale, arm: Arm, column: ScoreColumn) -> tuple[Task, FinetuneRecipe]:
    """Returns task and recipe of a cell; the arm's changes do not apply to frozen encoders."""
    task, tuning = named_task(column.task), scale.tunings.get(column.task, scale.tunings[""])
    changes = () if task.freezes_encoder else arm.finetuning
    recipe, task = with_changes(tuning.recipe, task, changes=(*tuning.changes, *changes))
    return task, recipe


def score_of(folder: Path, column: ScoreColumn) -> Score:
    """Returns the score of a study: its runs with the best learning rate that did not diverge."""
    outcome = json_object(folder / "study.json")
    best = outcome["best_learning_rate"]
    runs = [run["scores"] for run in outcome["runs"] if run["learning_rate"] == best]
    seeds = tuple(100 * scores[column.score] for scores in runs if scores)
    return Score(seeds, best, diverged=len(runs) - len(seeds))


def write_page(output: Path, results: Results) -> None:
    """Writes report.html, report.md, and results.json with all numbers."""
    experiment, scores = results.experiment, results.scores
    num_cells, lead = len(experiment.arms) * len(results.columns), list(results.remarks)
    if len(scores) < num_cells:
        lead.append(f"{len(scores)} of {num_cells} cells have a score so far.")
    seeds = []
    for (arm, column), score in scores.items():
        if score.diverged:
            lead.append(f"Diverged: {score.diverged} of the runs of {arm} on {column}.")
        seed_scores = ", ".join(f"{each:.1f}" for each in score.seeds)
        seeds.append([arm, column, f"{score.learning_rate:g}", seed_scores])
    header = ["arm", "task", "learning rate", "score of each seed"]
    notes = [SCORES, PUBLISHED] if any(arm.published for arm in experiment.arms) else [SCORES]
    sections = [
        Section(heading="Scores", notes=notes, table=_score_table(results)),
        Section(heading="Pretraining", notes=[PRETRAINING], table=_pretraining_table(results)),
        Section(heading="Seeds", table=Table(header, seeds)),
    ]
    Report(title=experiment.title, lead=lead, sections=sections).write(output)
    cells = [
        {"arm": arm.name, "column": column.name, "paper": experiment.published(arm, column)}
        | dataclasses.asdict(score)
        for arm in experiment.arms
        for column in results.columns
        if (score := scores.get((arm.name, column.name))) is not None
    ]
    values = {"table": experiment.name, "cells": cells, "pretraining": results.pretrainings}
    write_json(output / "results.json", values)


def _score_table(results: Results) -> Table:
    """Returns the scores, and next to each column the paper's scores, if it has some."""
    experiment, scores = results.experiment, results.scores
    cells = {"": [arm.name for arm in experiment.arms]}
    for column in results.columns:
        ours = [scores.get((arm.name, column.name), "–") for arm in experiment.arms]
        paper = [experiment.published(arm, column) for arm in experiment.arms]
        cells[column.name] = list(map(str, ours))
        if any(paper):
            cells[f"{column.name}, paper"] = [f"{each:.1f}" if each else "–" for each in paper]
    return Table([*cells], list(zip(*cells.values(), strict=True)))


def _pretraining_table(results: Results) -> Table:
    """Returns the scores of the pretrained models."""
    models = results.pretrainings
    names = dict.fromkeys(name for scores in models.values() for name in scores)
    header = ["model", *(name.replace("_", " ") for name in names)]
    return Table(header, [[model, *map(scores.get, names)] for model, scores in models.items()])
