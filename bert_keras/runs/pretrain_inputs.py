"""Checks a recipe, records and a starting point together and builds the inputs of a pretraining."""

import os
from pathlib import Path

from bert_keras.config import ModelMetadata
from bert_keras.data.batches import Batches
from bert_keras.data.masking import Masker
from bert_keras.data.objectives import DynamicMasking
from bert_keras.data.record_file import common_schema, record_files
from bert_keras.data.records import PLAIN_IDS, Records
from bert_keras.errors import check
from bert_keras.families import preset
from bert_keras.files import StrPath, file_sha256, json_object
from bert_keras.models.replaced_tokens import generator_size
from bert_keras.runs.distillation import Distillation, open_teacher
from bert_keras.runs.objectives import named_objective
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.runs.starting_point import open_starting_point
from bert_keras.text.fast_tokenizer import (
    BYTE_SPACE,
    records_vocabulary,
    vocabulary_file,
    vocabulary_sha256,
)
from bert_keras.text.vocab import Vocabulary, seems_lowercase

MANIFEST = "manifest.json"  # of bert-tfrecords build


class PretrainInputs:
    """The inputs of a pretraining, read and checked; see `pretrain` for arguments and errors.

    `masking` is None for records that are masked already, `starting_point` and `teacher` without
    one. `tokens_per_example` is the mean number without padding in the first thousand records.
    """

    def __init__(
        self,
        recipe: PretrainRecipe,
        *,
        records: StrPath,
        start: StrPath | None = None,
        distillation: Distillation | None = None,
    ):
        vocabulary, records = records_vocabulary(records), Path(records)
        self.recipe, self.records, self.vocabulary = recipe, records, vocabulary
        self.files = record_files(records)
        self.held_out_files = sorted(map(str, records.glob("held-out*.tfrecord")))
        self.schema = common_schema([*self.files, *self.held_out_files])
        self.objective = named_objective(recipe.objective, has_labels=self.schema.has_labels)
        self.masking = self._masking()
        lowercase, self.starting_point = _lowercase(records, vocabulary), None
        if start is not None:
            self.starting_point = open_starting_point(
                start,
                recipe=recipe,
                objective=self.objective,
                vocabulary=vocabulary,
                max_length=self.schema.max_length,
                lowercase=lowercase,
            )
        self.metadata = self._metadata(lowercase)
        self.teacher = None
        if distillation is not None:
            check(not self.metadata.task, f"the objective {recipe.objective} has no distillation")
            self.teacher = open_teacher(distillation, student=self.metadata, vocabulary=vocabulary)
        self._training, self._held_out = Records(self.files, vocab_size=len(vocabulary)), None
        if self.held_out_files:
            self._held_out = Records(self.held_out_files, vocab_size=len(vocabulary))
        # Counting reads all files, so a damaged file is found before the training.
        size = min(1000, self._training.num_records)
        inputs, *_ = self._batches(self._training, batch_size=size)[0]
        self.tokens_per_example = float(inputs["input_mask"].sum(axis=1).mean())

    def _metadata(self, lowercase: bool | None) -> ModelMetadata:
        recipe, start = self.recipe, self.starting_point
        model, task = self.objective.model, {}
        if "generator" in model.kind.heads:
            task = {"generator_size": recipe.generator_size}
            if start is not None and "generator" not in start.new:
                task = {"generator_size": generator_size(start.checkpoint.metadata)}
        if start is not None:
            config, lowercase = start.config, start.checkpoint.metadata.lowercase
        else:
            lowercase = seems_lowercase(self.vocabulary) if lowercase is None else lowercase
            config = preset(
                recipe.size,
                vocab_size=len(self.vocabulary),
                hidden_dropout_rate=recipe.dropout_rate,
                attention_dropout_rate=recipe.dropout_rate,
                initializer_stddev=recipe.initializer_stddev,
                has_pooler=model.kind.reads_pooled_output,
                is_causal=self.objective.is_causal,
            )
        return ModelMetadata(
            model=model.kind.model,
            config=config,
            lowercase=lowercase,
            max_length=self.schema.max_length,
            task=task,
        )

    def file_states(self) -> dict[str, int | str]:
        """Returns the sizes of the record files, and the digests of vocabulary and manifest."""
        sizes = {
            Path(file).name: os.path.getsize(file) for file in (*self.files, *self.held_out_files)
        }
        small = (self.records / name for name in (vocabulary_file(self.vocabulary)[0], MANIFEST))
        return sizes | {path.name: file_sha256(path) for path in small if path.is_file()}

    def training_batches(self) -> Batches:
        """Returns shuffled batches without end."""
        recipe = self.recipe
        return self._batches(
            self._training, batch_size=recipe.batch_size, seed=recipe.seed, repeat=True
        )

    def held_out_batches(self) -> Batches | None:
        """Returns the held-out batches, of the size of one gradient accumulation part, if any."""
        if not self._held_out:
            return None
        size = max(1, self.recipe.batch_size // self.recipe.gradient_accumulation_steps)
        return self._batches(self._held_out, batch_size=size, drop_remainder=False)

    def sample_batch(self):
        """Returns a batch of four training records."""
        return self._batches(self._training, batch_size=4, repeat=True)[0]

    def baselines(self) -> dict[str, float]:
        """Scores models without context on the held-out records, or without them on the others."""
        if self.objective.baselines is None:
            return {}
        training, held_out = (
            self._batches(records, batch_size=1024, drop_remainder=False)
            for records in (self._training, self._held_out or self._training)
        )
        return self.objective.baselines(training, held_out, vocab_size=len(self.vocabulary))

    def _batches(self, records: Records, **options) -> Batches:
        examples = self.objective.examples
        return records.batches(masking=self.masking, objective=examples, **options)

    def _masking(self) -> DynamicMasking | None:
        recipe, is_masked = self.recipe, bool(self.schema.max_predictions)
        if is_masked or not self.objective.examples.reads_masks:
            changes = recipe.masking_changes()
            reason = f"the records are masked already; use {PLAIN_IDS}"
            reason = reason if is_masked else f"the objective {recipe.objective} masks no tokens"
            check(not changes, f"the recipe changes {', '.join(changes)}, but {reason}")
            return None
        has_starts = self.vocabulary.specials.word_start != BYTE_SPACE
        found = "mask_unit is word, but records of byte-level BPE do not mark the first word"
        remedy = "write records with bert-tfrecords build --mask-unit word"
        check(recipe.mask_unit != "word" or has_starts, f"{found} of a line; {remedy}")
        policy = recipe.masking_policy(max_length=self.schema.max_length)
        return DynamicMasking(Masker(policy, self.vocabulary), seed=recipe.seed)


def _lowercase(records: Path, vocabulary: Vocabulary) -> bool | None:
    """Returns `lowercase` of the records' manifest, or None if there is no manifest."""
    manifest = records / MANIFEST
    if not manifest.is_file():
        return None
    values = json_object(manifest)
    is_theirs = values["vocabulary"]["sha256"] == vocabulary_sha256(vocabulary)
    found = f"{records / vocabulary_file(vocabulary)[0]} is not the vocabulary of the records"
    remedy = "copy the one that they were written with there"
    check(is_theirs, f"{found}: its SHA-256 is not the one in manifest.json; {remedy}")
    return values["settings"]["lowercase"]
