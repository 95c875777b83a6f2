"""Runs an experiment: vocabulary, records, pretraining, fine-tuning and the report of all."""

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from bert_keras.experiments.experiments import Arm, Column, Experiment, arms_named, corpus_in, slug
from bert_keras.experiments.page import write_page
from bert_keras.experiments.results import Pretraining, Results, score_of
from bert_keras.experiments.scales import Phase, Scale
from bert_keras.options import with_changes
from bert_keras.runs.finetune import finetune
from bert_keras.runs.outcome import claim_output, read_scores
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.study import study
from bert_keras.storage import json_object, write_text
from bert_keras.tasks.catalog import named_task
from bert_keras.tasks.task import Task
from bert_keras.text.vocab import Vocabulary
from bert_keras.training.curves import read_curves
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab.train_vocab import train_vocabulary

COSTS = "costs.json"


def reproduce(
    experiment: Experiment, scale: Scale, *, data: str | os.PathLike, output: str | os.PathLike
) -> Results:
    """Runs an experiment, or what is left of it where `output` has its beginning.

    Args:
        experiment: The table or figure.
        scale: The sizes and recipes of its runs.
        data: A folder with corpus/*.txt and folders of tasks.
        output: The folder of all runs and of report.html and report.md, rewritten after each task.

    Raises:
        InputError: `data` has no corpus, no task or files that a task cannot read, or `output`
            holds another experiment.
    """
    return _Run(experiment, scale, data=str(data), output=Path(output)).results()


class _Run:
    """The folder of one experiment: vocab.txt, records-LENGTH, pretrain/ARM/LENGTH-STEP and
    finetune/ARM/TASK, each made where it is not there."""

    def __init__(self, experiment: Experiment, scale: Scale, *, data: str, output: Path):
        self.experiment, self.scale, self.data = experiment, scale, data
        self.files, self.missing = experiment.columns_in(data)
        self.corpus = corpus_in(data)
        self.columns = [c for c in experiment.columns if c.name in self.files]
        for column in self.columns:  # what a task refuses is told before hours of pretraining
            task, files = named_task(column.task), self.files[column.name]
            task = task.with_labels_of(task.read(files["train"], split="train"))
            task.read(files["dev"], split="dev")
        whose = {"table": experiment.name, "data": os.path.realpath(data)}
        self.output = claim_output(output, recipe=scale.needed(experiment), **whose)

    def results(self) -> Results:
        for line in self.missing:
            print(line, file=sys.stderr)
        stand_ins = self.scale.needed(self.experiment).stand_ins
        results = Results(
            experiment=self.experiment,
            columns=tuple(self.columns),
            note=self.scale.note,
            remarks=(*self.missing, *(f"{old} is {new} here." for old, new in stand_ins.items())),
            steps={arm.name: self.scale.step(arm) for arm in self.experiment.arms},
        )
        models = {}
        for name, arm in arms_named(self.experiment.arms).items():
            self._say(f"pretrain {name}")
            models[name], results.pretrainings[name] = self._pretrained(name, arm)
        for arm in self.experiment.arms:
            for column in self.columns:
                self._say(f"fine-tune {arm.name} on {column.name}")
                model = models[arm.pretraining_name][self.scale.step(arm)]
                outcome = self._tuned(arm, column, model)
                results.scores[arm.name, column.name] = score_of(outcome, column)
                results.curves[arm.name, column.name] = self._curves(arm, column, outcome)
                results.costs = self._costs()
                write_page(self.output, results)
        write_page(self.output, results)
        return results

    def _pretrained(self, name: str, arm: Arm) -> tuple[dict[int, Path], Pretraining]:
        """Its models, by the step that they are of, and what the last one came to."""
        start, models, curves = None, {}, {}
        ends = [self.scale.step(arm) for arm in self.experiment.arms]
        for phase in self.scale.pretraining(arm, ends=ends):
            end = phase.recipe.end
            folder = self.output / "pretrain" / name / f"{phase.max_length}-{end}"
            records = self._records(phase)
            with self._counted(f"pretrain {name}", unless=(folder / "scores.json").is_file()):
                scores = pretrain(phase.recipe, records=records, output=folder, start=start)
            models[end] = start = folder / "model"
            for side, tags in read_curves(folder / "logs").items():
                for tag, points in tags.items():
                    curves.setdefault((side, tag), []).extend(points)
        return models, Pretraining(scores=scores, curves=curves)

    def _tuned(self, arm: Arm, column: Column, model: Path) -> dict:
        """The study.json of its runs."""
        folder = self.output / "finetune" / slug(arm.name) / slug(column.name)
        if (folder / "study.json").is_file():
            outcome = json_object(folder / "study.json")
            if len(outcome["runs"]) == outcome["runs_planned"]:
                return outcome
        task, recipe = tuned(self.scale, arm, column)
        files = self.files[column.name]

        def run(rate: float, seed: int, output: Path) -> dict:
            with self._counted(f"fine-tune {column.name}", unless=read_scores(output) is not None):
                return finetune(
                    task,
                    dataclasses.replace(recipe, learning_rate=rate, seed=seed),
                    pretrained=model,
                    files=files,
                    output=output,
                    features=folder / "features",
                )

        seeds, rates = self.scale.num_seeds, recipe.learning_rates
        study(run, metric=task.metric, seeds=seeds, learning_rates=rates, output=folder)
        return json_object(folder / "study.json")

    def _curves(self, arm: Arm, column: Column, outcome: dict) -> list:
        """Of each seed at the best learning rate the score on dev after each epoch."""
        folder = self.output / "finetune" / slug(arm.name) / slug(column.name)
        tag = f"score/{column.score}"
        best = [r for r in outcome["runs"] if r["learning_rate"] == outcome["best_learning_rate"]]
        return [read_curves(folder / r["folder"] / "logs")["held_out"][tag] for r in best]

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        path = self.output / "vocab.txt"
        if not path.is_file():
            with self._counted("vocabulary"):
                train_vocabulary(self.corpus, size=self.scale.vocab_size).save(path)
        return Vocabulary.from_file(path)

    def _records(self, phase: Phase) -> Path:
        folder = self.output / f"records-{phase.max_length}"
        if not folder.is_dir():
            settings = record_settings(self.scale, phase)
            with self._counted("records"):
                build(self.corpus, vocabulary=self._vocabulary, output=folder, settings=settings)
        return folder

    @contextlib.contextmanager
    def _counted(self, stage: str, *, unless: bool = False) -> Iterator[None]:
        """Adds the time within to what the stage has cost, that of interrupted calls included."""
        begin = time.monotonic()
        try:
            yield
        finally:
            if not unless:
                costs = self._costs()
                costs[stage] = costs.get(stage, 0.0) + time.monotonic() - begin
                write_text(self.output / COSTS, json.dumps(costs, indent=2) + "\n")

    def _costs(self) -> dict[str, float]:
        """Seconds, by stage."""
        path = self.output / COSTS
        return json_object(path) if path.is_file() else {}

    def _say(self, what: str) -> None:
        print(f"{self.experiment.name}: {what}", file=sys.stderr, flush=True)


def record_settings(scale: Scale, phase: Phase) -> BuildSettings:
    """The settings of the records that a phase of pretraining reads."""
    return BuildSettings(
        objective="nsp",
        max_length=phase.max_length,
        max_predictions=0,
        duplicates=scale.duplicates,
        held_out_rate=scale.held_out_rate,
        seed=scale.seed,
    )


def tuned(scale: Scale, arm: Arm, column: Column) -> tuple[Task, FinetuneRecipe]:
    """The task and the recipe of a cell; one whose encoder is frozen is the same for all arms."""
    tuning, task = scale.tuning(column.task), named_task(column.task)
    changes = () if task.freezes_encoder else arm.finetuning
    recipe, task = with_changes(tuning.recipe, task, changes=(*tuning.changes, *changes))
    return task, recipe
