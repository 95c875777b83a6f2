"""Recipe, records and starting point in, checked together; all that a pretraining takes out."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bert_keras.architectures import MASKED_LM, PRETRAINER
from bert_keras.checkpoints.card import ModelCard, seems_lowercase
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.config import BertConfig
from bert_keras.data.masking import Masker
from bert_keras.data.objectives import OBJECTIVES, DynamicMasking
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

    def _dataset(self, files, batch_size: int, **options):
        skip = self.recipe.skip_broken
        return pretraining_dataset(
            files,
            batch_size=batch_size,
            masking=self.masking,
            objective=OBJECTIVES[self.recipe.objective],
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
    has_labels = recipe.objective == "bert" and schema.has_labels
    masking = _masking(recipe, schema, vocabulary)
    begin = None
    if start is not None:
        begin = starting_point(
            start,
            recipe=recipe,
            vocabulary=vocabulary,
            max_length=schema.max_length,
            has_labels=has_labels,
            lowercase=lowercase,
        )
        lowercase = begin.checkpoint.card.lowercase
    elif lowercase is None:
        lowercase = seems_lowercase(vocabulary)
    config = _config(recipe, vocabulary, has_labels=has_labels) if begin is None else begin.config
    card = ModelCard(
        model=(PRETRAINER if has_labels else MASKED_LM).name,
        config=config,
        lowercase=lowercase,
        max_length=schema.max_length,
    )
    encoders, teacher = {"the encoder to begin from": config}, None
    if distillation is not None:
        teacher = open_teacher(distillation, student=card, vocabulary=vocabulary)
        encoders["the teacher"] = teacher.card.config
    broken = broken_files([*files, *held_out_files]) if recipe.skip_broken else {}
    return PretrainInputs(
        recipe=recipe,
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
        tokens_per_example=_look_at_records(files, encoders, skip_broken=recipe.skip_broken),
    )


def _config(recipe: PretrainRecipe, vocabulary: Vocabulary, *, has_labels: bool) -> BertConfig:
    return preset(
        recipe.size,
        vocab_size=len(vocabulary),
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        initializer_stddev=recipe.initializer_stddev,
        has_pooler=has_labels,
        is_causal=recipe.is_causal,
    )


def _masking(
    recipe: PretrainRecipe, schema: PretrainingSchema, vocabulary: Vocabulary
) -> DynamicMasking | None:
    """What masks records of plain ids; None where the records hold masks, or none are wanted."""
    if recipe.is_causal:
        if changes := recipe.masking_changes():
            raise InputError(
                f"the recipe changes {', '.join(changes)}, but left to right nothing is masked; "
                "leave them out"
            )
        return None
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


def _look_at_records(
    files: list[str], encoders: Mapping[str, BertConfig], *, skip_broken: bool
) -> float:
    """Mean count of real tokens in the first thousand records, whose ids and segments must be ones
    of the encoders, which a message calls by their keys."""
    # Batches that end read all files once, to count: a truncated one shows before training.
    batches = feature_batches(files, batch_size=1000, drop_remainder=False, skip_broken=skip_broken)
    features = next(iter(batches))
    largest = int(features["input_ids"].numpy().max())
    for name, config in encoders.items():
        if largest >= config.vocab_size:
            raise InputError(
                f"{files[0]} holds the id {largest}, but the vocabulary beside it "
                f"has {config.vocab_size} pieces; put the vocabulary there that the records were "
                "written with"
            )
        if features["segment_ids"].numpy().max() >= (config.num_segments or math.inf):
            raise InputError(
                f"{files[0]} holds pairs, which need 2 segments, and {name} has "
                f"{config.num_segments}; take another, or write records without pairs: "
                "bert-tfrecords build --objective full-sentences"
            )
    return float(features["input_mask"].numpy().sum(axis=1).mean())
