"""Runs an experiment: vocabulary, records, pretraining, fine-tuning and the report."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bert_keras.distribution.strategy import check_one_machine
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.task import Task
from bert_keras.experiments.experiments import Arm, Experiment, ScoreColumn, slug
from bert_keras.experiments.page import Results, Score, write_page
from bert_keras.experiments.scales import Phase, Scale
from bert_keras.files import StrPath, file_sha256, json_object
from bert_keras.reports.page import Table
from bert_keras.runs.finetune import finetune
from bert_keras.runs.outcome import claimed_output, read_scores
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.settings import with_changes
from bert_keras.runs.study import study
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab import train_vocabulary


def reproduce(experiment: Experiment, scale: Scale, *, data: StrPath, output: StrPath) -> Results:
    """Runs an experiment. A second call with the same arguments continues an interrupted one.

    `data` is a folder with corpus/*.txt and folders of tasks, `output` the folder for all runs,
    report.html and report.md. The report is rewritten after each cell of the table.

    Raises:
        InputError: The scale is not for this experiment, `data` has no corpus or no task, a task
            cannot read its files, TF_CONFIG names several workers, or `output` contains another
            experiment or one with another corpus.
    """
    check_one_machine()
    experiment = scale.experiment(experiment)
    corpus, files, missing = experiment.inputs(data)
    columns = tuple(column for column in experiment.columns if column.name in files)
    for column in columns:  # reports invalid files before hours of pretraining
        task = named_task(column.task)
        task = task.with_labels_of(task.read(files[column.name]["train"], split="train"))
        task.read(files[column.name]["dev"], split="dev")
    results = Results(
        experiment=experiment,
        columns=columns,
        remarks=(f"Scale: {scale.note}", *missing, *scale.remarks(experiment)),
        steps={arm.name: scale.step(arm) for arm in experiment.arms},
    )
    digests = {os.path.relpath(file, data): file_sha256(file) for file in corpus}
    source = {"table": experiment.name, "data": os.path.realpath(data)}
    with claimed_output(output, recipe=scale, files=digests, **source) as folder:
        print(*missing, sep="\n", file=sys.stderr)
        _fill(results, Runs(folder, scale, corpus), files=files)
    return results


def plan(experiment: Experiment, scale: Scale, *, data: StrPath) -> str:
    """Returns a table of the stages of `reproduce` and their steps; see there for errors."""
    experiment = scale.experiment(experiment)
    _, files, missing = experiment.inputs(data)
    rows: list[list[str]] = []
    for name, arm in experiment.models.items():
        for phase in scale.pretraining(arm):
            what = f"pretrain {name}, size {phase.recipe.size}, length {phase.max_length}"
            rows.append([what, f"to step {phase.recipe.end:,}"])
    for column in experiment.columns:
        if column.name in files:
            _, recipe = cell_task(scale, experiment.arms[0], column)
            runs = len(experiment.arms) * scale.num_seeds * len(recipe.learning_rates)
            rows.append([f"fine-tune {column.name}, {recipe.num_epochs} epochs", f"{runs} runs"])
    arms = ", ".join(arm.name for arm in experiment.arms)
    title = f"{experiment.title}; {len(experiment.arms)} arms: {arms}"
    return "\n".join([title, *missing, *Table(["stage", ""], rows).aligned(first=str.ljust)])


def _fill(results: Results, runs: "Runs", *, files: Mapping[str, dict[str, str]]) -> None:
    """Computes all cells, one column after another; the report is rewritten after each cell."""
    experiment, models = results.experiment, {}
    for name, arm in experiment.models.items():
        print(f"{experiment.name}: pretrain {name}", file=sys.stderr, flush=True)
        arms = [each for each in experiment.arms if each.pretraining_name == name]
        ends = [results.steps[each.name] for each in arms]
        models[name], results.pretrainings[name] = runs.pretrained(name, arm, ends=ends)
    for column in results.columns:
        for arm in experiment.arms:
            cell = f"{arm.name} on {column.name}"
            print(f"{experiment.name}: fine-tune {cell}", file=sys.stderr, flush=True)
            model = models[arm.pretraining_name][results.steps[arm.name]]
            score = runs.score(arm, column, model=model, files=files[column.name])
            results.scores[arm.name, column.name] = score
            write_page(runs.folder, results)


@dataclass(frozen=True)
class Runs:
    """The folder of an experiment: vocab.txt, records-LENGTH, pretrain/MODEL/LENGTH-STEP and
    finetune/ARM/COLUMN. Its methods return existing results and compute missing ones.
    """

    folder: Path
    scale: Scale
    corpus: list[str]

    def records(self, phase: Phase) -> Path:
        """Returns the folder of the records for a phase of pretraining."""
        folder, vocabulary = self.folder / f"records-{phase.max_length}", self.folder / "vocab.txt"
        if not vocabulary.is_file():
            train_vocabulary(self.corpus, size=self.scale.vocab_size).save(vocabulary)
        if not folder.is_dir():
            settings = BuildSettings(
                objective="nsp",
                max_length=phase.max_length,
                max_predictions=0,
                duplicates=self.scale.duplicates,
                held_out_rate=self.scale.held_out_rate,
                seed=self.scale.seed,
            )
            vocabulary = Vocabulary.from_file(vocabulary)
            build(self.corpus, vocabulary=vocabulary, output=folder, settings=settings)
        return folder

    def pretrained(
        self, name: str, arm: Arm, *, ends: Iterable[int]
    ) -> tuple[dict[int, Path], dict]:
        """Pretrains the model of an arm; returns its folders by step, and the last scores."""
        start, scores, models = None, {}, {}
        for phase in self.scale.pretraining(arm, ends=ends):
            end = phase.recipe.end
            folder = self.folder / "pretrain" / name / f"{phase.max_length}-{end}"
            if (scores := read_scores(folder)) is None:
                records = self.records(phase)
                result = pretrain(phase.recipe, records=records, output=folder, pretrained=start)
                scores = result.scores
            models[end] = start = folder / "model"
        return models, scores

    def score(self, arm: Arm, column: ScoreColumn, *, model: Path, files: dict[str, str]) -> Score:
        """Fine-tunes a model on the task of a cell, as a study, and returns its score."""
        folder = self.folder / "finetune" / slug(arm.name) / slug(column.name)
        task, recipe = cell_task(self.scale, arm, column)

        def run(recipe: FinetuneRecipe, output: Path) -> dict:
            if (scores := read_scores(output)) is not None:
                return scores
            arguments = {"pretrained": model, "data": files, "features": folder / "features"}
            return finetune(task, recipe, output=output, **arguments).scores

        seeds, rates = self.scale.num_seeds, recipe.learning_rates
        study(run, recipe, metric=task.metric, seeds=seeds, learning_rates=rates, output=folder)
        return score_of(folder, column)


def cell_task(scale: Scale, arm: Arm, column: ScoreColumn) -> tuple[Task, FinetuneRecipe]:
    """Returns the task and the recipe of a cell, without the arm's changes for frozen encoders."""
    tuning, task = scale.tuning(column.task), named_task(column.task)
    changes = () if task.freezes_encoder else arm.finetuning
    recipe, task = with_changes(tuning.recipe, task, changes=(*tuning.changes, *changes))
    return task, recipe


def score_of(folder: Path, column: ScoreColumn) -> Score:
    """Returns the score of a study from its runs with the best learning rate that have scores."""
    outcome = json_object(folder / "study.json")
    best = outcome["best_learning_rate"]
    runs = [run for run in outcome["runs"] if run["learning_rate"] == best]
    finished = [run for run in runs if run["scores"]]
    return Score(
        seeds=tuple(100 * run["scores"][column.score] for run in finished),
        learning_rate=best,
        diverged=len(runs) - len(finished),
    )
