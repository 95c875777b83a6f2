"""Estimates how long the runs of an experiment will take on this machine."""

import dataclasses
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from bert_keras.architectures import ENCODER
from bert_keras.checkpoints.card import ModelCard
from bert_keras.experiments.experiments import Experiment, arms_named, corpus_in
from bert_keras.experiments.run import record_settings, tuned
from bert_keras.experiments.scales import Phase, Scale
from bert_keras.models import BertEncoder
from bert_keras.models.pretrained import save_model
from bert_keras.presets import preset
from bert_keras.reports.page import Table
from bert_keras.runs.forecast import step_seconds
from bert_keras.runs.pretrain import compiled_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.task_run import TaskRun
from bert_keras.storage import text_lines
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.vocab.train_vocab import train_vocabulary

SAMPLE_CHARACTERS = 2_000_000  # of the corpus, to learn a vocabulary from and to time steps on


@dataclasses.dataclass(frozen=True)
class Stage:
    """`steps` that take `seconds` each."""

    name: str
    steps: int
    seconds: float

    @property
    def row(self) -> list[str]:
        time = timedelta(seconds=round(self.steps * self.seconds))
        return [self.name, f"{self.steps:,}", f"{1000 * self.seconds:,.0f} ms", str(time)]


def plan(experiment: Experiment, scale: Scale, *, data: str | os.PathLike) -> str:
    """Lists what `reproduce` will run, with times from measured steps on a sample of the corpus.

    Scoring and the tokenization of the whole corpus are not counted. Writes no files.
    """
    files, missing = experiment.columns_in(str(data))
    corpus = corpus_in(str(data))
    with tempfile.TemporaryDirectory(prefix="bert-keras-plan-") as folder:
        sample = _Sample(scale, corpus, Path(folder))
        stages = [*_pretrainings(experiment, scale, sample)]
        stages += _tunings(experiment, scale, sample, files)
    total = timedelta(seconds=round(sum(stage.steps * stage.seconds for stage in stages)))
    table = Table(["stage", "steps", "a step", "time"], [stage.row for stage in stages])
    arms = ", ".join(arm.name for arm in experiment.arms)
    return "\n".join(
        [
            f"{experiment.title}; {len(experiment.arms)} arms: {arms}",
            *missing,
            *table.aligned(first=str.ljust),
            f"about {total} (hours:minutes:seconds) in all, scoring and saving not counted",
        ]
    )


class _Sample:
    """Vocabulary, records and an encoder with random weights, of the beginning of the corpus."""

    def __init__(self, scale: Scale, corpus: list[str], folder: Path):
        self.scale, self.folder = scale, folder
        text = folder / "text.txt"
        text.write_text("\n".join(_beginning(corpus)) + "\n", encoding="utf-8")
        self.vocabulary = train_vocabulary([text], size=scale.vocab_size)

    def records(self, phase: Phase) -> Path:
        folder = self.folder / f"records-{phase.max_length}"
        if not folder.is_dir():
            settings = dataclasses.replace(
                record_settings(self.scale, phase), duplicates=1, held_out_rate=0.0
            )
            text = self.folder / "text.txt"
            build([text], vocabulary=self.vocabulary, output=folder, settings=settings)
        return folder

    def encoder(self, size: str) -> Path:
        """As large as the pretrained ones: a vocabulary of few words is filled up."""
        folder = self.folder / f"encoder-{size}"
        if not folder.is_dir():
            vocabulary: Vocabulary = self.vocabulary
            if len(vocabulary) < self.scale.vocab_size:
                vocabulary = vocabulary.padded(self.scale.vocab_size)
            config = preset(size, vocab_size=len(vocabulary))
            card = ModelCard(
                model=ENCODER.name,
                config=config,
                lowercase=True,
                max_length=config.max_positions,
            )
            encoder = BertEncoder(config)
            encoder.build()
            save_model(encoder, folder, card=card, vocabulary=vocabulary)
        return folder


def _beginning(corpus: list[str]) -> Iterator[str]:
    left = SAMPLE_CHARACTERS
    for file in corpus:
        for line in text_lines(file):
            yield line
            left -= len(line)
            if left <= 0:
                return
        yield ""


def _pretrainings(experiment: Experiment, scale: Scale, sample: _Sample) -> Iterator[Stage]:
    for name, arm in arms_named(experiment.arms).items():
        begin = 0
        for phase in scale.pretraining(arm):
            recipe = phase.recipe
            inputs = PretrainInputs(recipe, records=sample.records(phase), start=None)
            model = compiled_pretrainer(inputs, resumes=False)
            seconds = statistics.median(step_seconds(model, inputs.training_batches()))
            told = f"pretrain {name}, length {phase.max_length}"
            yield _timed(Stage(told, recipe.end - begin, seconds))
            begin = recipe.end


def _tunings(
    experiment: Experiment, scale: Scale, sample: _Sample, files: dict[str, dict[str, str]]
) -> Iterator[Stage]:
    """Each task once, and once more for arms with other recipes or of another size."""
    arms = defaultdict(list)
    for arm in experiment.arms:
        arms[scale.pretraining(arm)[-1].recipe.size, arm.finetuning].append(arm)
    for (size, changes), alike in arms.items():
        for column in experiment.columns:
            if column.name not in files:
                continue
            task, recipe = tuned(scale, alike[0], column)
            run = TaskRun(
                task,
                recipe,
                pretrained=sample.encoder(size),
                files=files[column.name],
                features=sample.folder / "features",
            )
            seconds = statistics.median(step_seconds(run.trained, run.train))
            runs = len(alike) * scale.num_seeds * len(recipe.learning_rates)
            told = ", ".join((f"fine-tune {column.name}", size, *changes, f"runs: {runs}"))
            yield _timed(Stage(told, runs * run.num_steps, seconds))


def _timed(stage: Stage) -> Stage:
    print(f"timed: {', '.join(stage.row)}", file=sys.stderr, flush=True)
    return stage
