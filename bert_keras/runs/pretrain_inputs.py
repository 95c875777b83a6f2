"""Checks a recipe, records and a starting point together, and reads what a pretraining needs."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_keras.checkpoints.card import ModelCard, seems_lowercase
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.config import BertConfig
from bert_keras.data.masking import Masker
from bert_keras.data.objectives import DynamicMasking
from bert_keras.data.records import (
    broken_files,
    common_schema,
    feature_batches,
    pretraining_dataset,
    record_files,
)
from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.presets import preset
from bert_keras.runs.distillation import Distillation, open_teacher
from bert_keras.runs.objectives import Objective, named_objective
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.runs.starting_point import StartingPoint, starting_point
from bert_keras.storage import json_object
from bert_keras.text.fast_tokenizer import ROBERTA_SPECIALS, vocabulary_in
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True, kw_only=True)
class PretrainInputs:
    """`broken` are the files that cannot be read to their end, where the recipe skips what follows,
    with the number of records before; `tokens_per_example` is the mean count of real tokens.
    """

    recipe: PretrainRecipe
    objective: Objective
    card: ModelCard
    vocabulary: Vocabulary
    files: list[str]
    held_out_files: list[str]
    schema: PretrainingSchema
    masking: DynamicMasking | None
    begin: StartingPoint | None
    distillation: Distillation | None
    teacher: Checkpoint | None
    broken: dict[str, int]
    tokens_per_example: float

    def training_batches(self):
        """Shuffled, endless."""
        recipe = self.recipe
        return self._dataset(self.files, recipe.batch_size, seed=recipe.seed, repeat=True)

    def held_out_batches(self):
        """As large as the parts of a step; None where there are no such records."""
        if not self.held_out_files:
            return None
        size = max(1, self.recipe.batch_size // self.recipe.gradient_accumulation_steps)
        return self._dataset(self.held_out_files, size, drop_remainder=False)

    def sample_batch(self):
        """A few records, held-out ones where there are any."""
        files = self.held_out_files or self.files
        return next(iter(self._dataset(files, 4, repeat=True)))  # repeated, it counts nothing

    def counted_batches(self, files: list[str], *, most: int | None = None):
        """For counting: every record once, in order, or the first `most` records."""
        return self._dataset(files, 1024, drop_remainder=False, most=most)

    def baselines(self, *, most: int | None = None) -> dict[str, float]:
        """Scores of models without context on held-out records, or on those of training."""
        if self.objective.baselines is None:
            return {}
        return self.objective.baselines(
            self.counted_batches(self.files, most=most),
            self.counted_batches(self.held_out_files or self.files, most=most),
            vocab_size=len(self.vocabulary),
        )

    def _dataset(self, files, batch_size: int, **options):
        skip = self.recipe.skip_broken
        return pretraining_dataset(
            files,
            batch_size=batch_size,
            masking=self.masking,
            objective=self.objective.examples,
            skip_broken=skip,
            **options,
        )


def pretrain_inputs(
    recipe: PretrainRecipe,
    *,
    records: str | os.PathLike,
    start: str | os.PathLike | None,
    distillation: Distillation | None = None,
) -> PretrainInputs:
    """See `bert_keras.runs.pretrain.pretrain`; InputError where they do not go together."""
    records = Path(records)
    if not records.is_dir():
        raise InputError(f"{records} is not a folder; expected one that bert-tfrecords build wrote")
    vocabulary = vocabulary_in(records)
    if vocabulary is None:
        raise InputError(
            f"{records} holds no vocab.txt and no tokenizer.json; put the vocabulary there that "
            "the records were written with"
        )
    files = record_files(records)
    held_out_files = sorted(map(str, records.glob("held-out*.tfrecord")))
    schema = common_schema([*files, *held_out_files])
    lowercase = _lowercase(records)
    objective = named_objective(recipe.objective, has_labels=schema.has_labels)
    architecture = objective.model.architecture
    masking = None
    if objective.examples.reads_masks:
        masking = _masking(recipe, schema, vocabulary)
    elif changes := recipe.masking_changes():
        raise InputError(
            f"the recipe changes {', '.join(changes)}, but left to right nothing is masked; leave "
            "them out"
        )
    begin = None
    if start is not None:
        begin = starting_point(
            start,
            recipe=recipe,
            vocabulary=vocabulary,
            max_length=schema.max_length,
            has_labels=architecture.reads_pooled_output,
            lowercase=lowercase,
        )
        lowercase = begin.checkpoint.card.lowercase
    elif lowercase is None:
        lowercase = seems_lowercase(vocabulary)
    config = _config(recipe, vocabulary, objective) if begin is None else begin.config
    card = ModelCard(
        model=architecture.name,
        config=config,
        lowercase=lowercase,
        max_length=schema.max_length,
    )
    encoders, teacher = {"the encoder to begin from": config}, None
    if distillation is not None:
        teacher = open_teacher(distillation, student=card, vocabulary=vocabulary)
        encoders["the teacher"] = teacher.card.config
    broken = broken_files([*files, *held_out_files]) if recipe.skip_broken else {}
    sample = _first_records(files, skip_broken=recipe.skip_broken)
    _check_records(files[0], sample, encoders)
    return PretrainInputs(
        recipe=recipe,
        objective=objective,
        card=card,
        vocabulary=vocabulary,
        files=files,
        held_out_files=held_out_files,
        schema=schema,
        masking=masking,
        begin=begin,
        distillation=distillation,
        teacher=teacher,
        broken=broken,
        tokens_per_example=float(sample["input_mask"].sum(axis=1).mean()),
    )


def _config(recipe: PretrainRecipe, vocabulary: Vocabulary, objective: Objective) -> BertConfig:
    return preset(
        recipe.size,
        vocab_size=len(vocabulary),
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        initializer_stddev=recipe.initializer_stddev,
        has_pooler=objective.model.architecture.reads_pooled_output,
        is_causal=objective.is_causal,
    )


def _masking(
    recipe: PretrainRecipe, schema: PretrainingSchema, vocabulary: Vocabulary
) -> DynamicMasking | None:
    """Returns what masks records of plain ids; None where the records hold masks."""
    if schema.max_predictions:
        if changes := recipe.masking_changes():
            raise InputError(
                f"the recipe changes {', '.join(changes)}, but the records are masked already; "
                "leave them out, or write records of plain ids"
            )
        return None
    if recipe.mask_unit == "word" and vocabulary.specials == ROBERTA_SPECIALS:
        raise InputError(
            "records of byte-level BPE do not tell which word a line begins with; mask whole words "
            "while they are written (bert-tfrecords build --mask-unit word), or pieces"
        )
    policy = recipe.masking_policy(max_length=schema.max_length)
    return DynamicMasking(Masker(policy, vocabulary), seed=recipe.seed)


def _lowercase(records: Path) -> bool | None:
    """As the records' own manifest says; None of foreign records."""
    manifest = records / "manifest.json"
    if manifest.is_file():
        try:
            return json_object(manifest)["settings"]["lowercase"]
        except (KeyError, TypeError) as error:
            raise InputError(f"{manifest} is not what bert-tfrecords build wrote") from error
    return None


def _first_records(files: list[str], *, skip_broken: bool) -> dict[str, np.ndarray]:
    """Returns the features of the first thousand records."""
    # Batches that end read all files once, to count: a truncated one shows before training.
    batches = feature_batches(files, batch_size=1000, drop_remainder=False, skip_broken=skip_broken)
    return {name: array.numpy() for name, array in next(iter(batches)).items()}


def _check_records(
    file: str, features: Mapping[str, np.ndarray], encoders: Mapping[str, BertConfig]
) -> None:
    """Raises InputError for ids or segments that an encoder lacks; messages name it by its key."""
    largest = int(features["input_ids"].max())
    for name, config in encoders.items():
        if largest >= config.vocab_size:
            raise InputError(
                f"{file} holds the id {largest}, but the vocabulary beside it "
                f"has {config.vocab_size} pieces; put the vocabulary there that the records were "
                "written with"
            )
        if features["segment_ids"].max() >= (config.num_segments or math.inf):
            raise InputError(
                f"{file} holds pairs, which need 2 segments, and {name} has "
                f"{config.num_segments}; take another, or write records without pairs: "
                "bert-tfrecords build --objective full-sentences"
            )
