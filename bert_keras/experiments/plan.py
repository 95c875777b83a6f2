"""Estimates the duration of an experiment on this machine."""

import dataclasses
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from pathlib import Path

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.experiments.experiments import Experiment
from bert_keras.experiments.run import Runs, cell_task
from bert_keras.experiments.scales import Scale
from bert_keras.files import StrPath, text_lines
from bert_keras.reports.page import Table
from bert_keras.runs.forecast import step_seconds
from bert_keras.runs.pretrain import compiled_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.task_run import TaskRun

SAMPLE_CHARACTERS = 2_000_000  # size of the corpus sample for the vocabulary and the timed steps


Stage = tuple[str, int, float]  # name, steps, seconds of a step


def plan(experiment: Experiment, scale: Scale, *, data: StrPath) -> str:
    """Returns a table of the duration of each stage of `reproduce`, for the terminal.

    The times are those of measured steps on a sample of the corpus. They do not include scoring
    and the tokenization of the whole corpus. Writes no files except temporary ones; see `reproduce`
    for arguments and errors.
    """
    experiment = scale.adapted(experiment)
    corpus, files, missing = experiment.inputs(data)
    total, rows = 0.0, []
    with tempfile.TemporaryDirectory(prefix="bert-keras-plan-") as folder:
        text = Path(folder, "text.txt")
        text.write_text("\n".join(_sample_lines(corpus)) + "\n", encoding="utf-8")
        sample_scale = dataclasses.replace(scale, duplicates=1, held_out_rate=0.0)
        sample = Runs(Path(folder), sample_scale, [str(text)])
        pretrainings = _pretraining_stages(experiment, scale, sample)
        for name, steps, seconds in chain(
            pretrainings, _finetuning_stages(experiment, scale, sample, files)
        ):
            total += steps * seconds
            time = str(timedelta(seconds=round(steps * seconds)))
            rows.append([name, f"{steps:,}", f"{1000 * seconds:,.0f} ms", time])
            print(f"measured: {', '.join(rows[-1])}", file=sys.stderr, flush=True)
    arms = ", ".join(arm.name for arm in experiment.arms)
    return "\n".join(
        [
            f"{experiment.title}; {len(experiment.arms)} arms: {arms}",
            *missing,
            *Table(["stage", "steps", "time per step", "time"], rows).aligned(first=str.ljust),
            f"about {timedelta(seconds=round(total))} (hours:minutes:seconds) in total, without "
            "scoring and saving",
        ]
    )


def _sample_lines(corpus: list[str]) -> Iterator[str]:
    num_characters = 0
    for file in corpus:
        for line in text_lines(file):
            yield line
            num_characters += len(line)
            if num_characters >= SAMPLE_CHARACTERS:
                return
        yield ""


def _pretraining_stages(experiment: Experiment, scale: Scale, sample: Runs) -> Iterator[Stage]:
    """Times steps of each pretraining and saves the model for the timing of the fine-tuning."""
    for name, arm in experiment.models.items():
        start = 0
        for phase in scale.pretraining(arm):
            inputs = PretrainInputs(phase.recipe, records=sample.records(phase))
            model = compiled_pretrainer(inputs)
            seconds = statistics.median(step_seconds(model, inputs.training_batches()))
            stage = f"pretrain {name}, length {phase.max_length}"
            yield stage, phase.recipe.end - start, seconds
            start = phase.recipe.end
        save_model(
            model, sample.folder / name, metadata=inputs.metadata, vocabulary=inputs.vocabulary
        )


def _finetuning_stages(
    experiment: Experiment, scale: Scale, sample: Runs, files: dict[str, dict[str, str]]
) -> Iterator[Stage]:
    """Times steps of each task; arms of the same size and recipe share one measurement."""
    groups = defaultdict(list)
    for arm in experiment.arms:
        groups[scale.pretraining(arm)[-1].recipe.size, arm.finetuning].append(arm)
    for (size, changes), arms in groups.items():
        for column in experiment.columns:
            if column.name not in files:
                continue
            task, recipe = cell_task(scale, arms[0], column)
            run = TaskRun(
                task,
                recipe,
                pretrained=sample.folder / arms[0].pretraining_name,
                data=files[column.name],
                features=sample.folder / "features",
            )
            seconds = statistics.median(step_seconds(run.trained, run.train))
            runs = len(arms) * scale.num_seeds * len(recipe.learning_rates)
            stage = ", ".join((f"fine-tune {column.name}", size, *changes, f"runs: {runs}"))
            yield stage, runs * run.num_steps, seconds
