"""Checks a recipe, records and a starting point together and builds the inputs of a pretraining."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.checkpoint import TextCheckpoint, TrainingState
from bert_keras.checkpoints.formats import absolute_path, open_text_checkpoint
from bert_keras.checkpoints.pretrained import missing_parts
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.data.batches import Batches
from bert_keras.data.masking import Masker
from bert_keras.data.objectives import DynamicMasking
from bert_keras.data.record_file import common_schema, record_files
from bert_keras.data.records import PLAIN_IDS, Records
from bert_keras.errors import InputError, check_unused
from bert_keras.families import preset
from bert_keras.files import StrPath, file_sha256, json_object
from bert_keras.models.replaced_tokens import generator_size
from bert_keras.runs.distillation import (
    Distillation,
    check_fit,
    check_same_vocabulary,
    open_teacher,
)
from bert_keras.runs.pretraining_tasks import pretraining_task
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.text.fast_tokenizer import (
    BYTE_SPACE,
    records_vocabulary,
    vocabulary_file,
    vocabulary_sha256,
)
from bert_keras.text.vocab import seems_lowercase

MANIFEST = "manifest.json"  # of bert-tfrecords build


@dataclass(frozen=True)
class StartingPoint:
    """The checkpoint from which a pretraining starts."""

    path: str  # absolute
    checkpoint: TextCheckpoint
    new: tuple[str, ...]  # parts that the checkpoint lacks and that get fresh weights

    @property
    def state(self) -> TrainingState | None:
        """The training state; None if there is none, or if the checkpoint lacks other parts."""
        return self.checkpoint.state if {*self.new} <= {"pooler", "next_sentence"} else None

    @property
    def step(self) -> int:
        """The step of the training state, 0 without one."""
        return self.state.step if self.state else 0

    def __str__(self) -> str:
        """Returns the rows that are appended to the table of a load report."""
        stored, config = self.checkpoint.state, self.checkpoint.metadata.config
        training = "step 0: the checkpoint has no training state"
        if self.state:
            training = f"step {self.step:,}, with the state of the optimizer"
        elif stored:
            new = ", ".join(self.new)
            training = f"step 0: the training state of step {stored.step:,} lacks {new}"
        size = f"{config.num_layers} layers, hidden size {config.hidden_size}"
        return f"{'size':<12}of the checkpoint: {size}\n{'training':<12}{training}"


class PretrainInputs:
    """The inputs of a pretraining, read and checked, with the errors of `pretrain`.

    `masking` is None for records that are masked already. `tokens_per_example` is the mean number
    of tokens without padding in the first thousand records.

    Args:
        recipe, records, pretrained, teacher: As in `pretrain`.
    """

    def __init__(
        self,
        recipe: PretrainRecipe,
        *,
        records: StrPath,
        pretrained: StrPath | None = None,
        teacher: Distillation | None = None,
    ):
        vocabulary, records = records_vocabulary(records), Path(records)
        self.recipe, self.records, self.vocabulary = recipe, records, vocabulary
        self.files = record_files(records)
        self.held_out_files = sorted(map(str, records.glob("held-out*.tfrecord")))
        self.schema = common_schema([*self.files, *self.held_out_files])
        self.task = pretraining_task(recipe.objective, has_labels=self.schema.has_labels)
        self.masking = self._masking()
        self.starting_point = None if pretrained is None else self._open_start(pretrained)
        self.metadata, self.teacher = self._metadata(), None
        if teacher is not None:
            if self.metadata.task:  # of a generator and a discriminator
                raise InputError(f"the objective {recipe.objective} has no distillation")
            self.teacher = open_teacher(teacher, student=self.metadata, vocabulary=vocabulary)
        self._training, self._held_out = Records(self.files, vocab_size=len(vocabulary)), None
        if self.held_out_files:
            self._held_out = Records(self.held_out_files, vocab_size=len(vocabulary))
        # Counting reads all files, so a damaged file is found before the training.
        size = min(1000, self._training.num_records)
        inputs, targets, _ = self._batches(self._training, batch_size=size)[0]
        self.tokens_per_example = float(inputs["input_mask"].sum(axis=1).mean())
        self.num_predictions = targets["masked_lm"].shape[1] if "masked_lm" in targets else 0

    def _masking(self) -> DynamicMasking | None:
        recipe, is_masked = self.recipe, bool(self.schema.max_predictions)
        if is_masked or not self.task.examples.reads_masks:
            reason = f"without an objective that masks tokens and records of {PLAIN_IDS}"
            names = ("mask_rate", "mask_unit", "max_ngram", "replacement")
            check_unused(recipe, *names, reason=reason)
            return None
        if recipe.mask_unit == "word" and self.vocabulary.specials.word_start == BYTE_SPACE:
            remedy = "write records with bert-tfrecords build --mask-unit word"
            raise InputError(f"mask_unit is word, but the vocabulary is byte-level BPE; {remedy}")
        policy = recipe.masking_policy(max_length=self.schema.max_length)
        return DynamicMasking(Masker(policy, self.vocabulary), seed=recipe.seed)

    def _open_start(self, path: StrPath) -> StartingPoint:
        checkpoint, end = open_text_checkpoint(path), self.recipe.end
        metadata, lowercase = checkpoint.metadata, self._lowercase()
        check_same_vocabulary(checkpoint, self.vocabulary, source=path)
        needed = {
            "is_causal": (metadata.config.is_causal, self.task.is_causal),
            "num_lstm_layers": (metadata.config.num_lstm_layers, 0),
        }
        if lowercase is not None:
            needed["lowercase"] = (metadata.lowercase, lowercase)
        check_fit(needed, source=path, remedy="choose another checkpoint, records or objective")
        metadata = dataclasses.replace(metadata, config=self._changed(metadata.config))
        new = missing_parts(checkpoint, heads=self.task.model.kind.heads, metadata=metadata)
        start = StartingPoint(absolute_path(path), checkpoint, tuple(new))
        if start.step >= end:
            found = f"{path} has a training state of step {start.step:,}"
            raise InputError(f"{found}, but the run ends at step {end:,}; raise num_steps")
        return start

    def _metadata(self) -> ModelMetadata:
        recipe, start, Model, task = self.recipe, self.starting_point, self.task.model, {}
        if "generator" in Model.kind.heads:
            task = {"generator_size": recipe.generator_size}
            if start is not None and "generator" not in start.new:
                task = {"generator_size": generator_size(start.checkpoint.metadata)}
        if start is not None:
            config = start.checkpoint.metadata.config
            lowercase = start.checkpoint.metadata.lowercase
        else:
            lowercase = self._lowercase()
            lowercase = seems_lowercase(self.vocabulary) if lowercase is None else lowercase
            config = preset(
                recipe.size,
                vocab_size=len(self.vocabulary),
                initializer_stddev=recipe.initializer_stddev,
                has_pooler=False,
                is_causal=self.task.is_causal,
            )
        return ModelMetadata(
            model=Model.kind.model,
            config=self._changed(config),
            lowercase=lowercase,
            max_length=self.schema.max_length,
            task=task,
        )

    def _changed(self, config: BertConfig) -> BertConfig:
        """Returns a configuration with the recipe's dropout rate, and a pooler if it is needed."""
        return dataclasses.replace(
            config,
            hidden_dropout_rate=self.recipe.dropout_rate,
            attention_dropout_rate=self.recipe.dropout_rate,
            has_pooler=config.has_pooler or self.task.model.kind.reads_pooled_output,
        )

    def _lowercase(self) -> bool | None:
        """Returns `lowercase` of the records' manifest, None without a manifest."""
        manifest = self.records / MANIFEST
        if not manifest.is_file():
            return None
        values = json_object(manifest)
        if values["vocabulary"]["sha256"] != vocabulary_sha256(self.vocabulary):
            file = self.records / vocabulary_file(self.vocabulary)[0]
            raise InputError(f"{file} has another SHA-256 than in {MANIFEST}; copy the right file")
        return values["settings"]["lowercase"]

    def file_states(self) -> dict[str, int | str]:
        """Returns the sizes of the record files, and the digests of vocabulary and manifest."""
        files = (*self.files, *self.held_out_files)
        sizes = {Path(file).name: os.path.getsize(file) for file in files}
        small = (self.records / name for name in (vocabulary_file(self.vocabulary)[0], MANIFEST))
        return sizes | {path.name: file_sha256(path) for path in small if path.is_file()}

    def training_batches(self) -> Batches:
        """Returns shuffled batches without end."""
        order = {"batch_size": self.recipe.batch_size, "seed": self.recipe.seed}
        return self._batches(self._training, **order, repeat=True)

    def held_out_batches(self) -> Batches | None:
        """Returns the held-out batches, of the size of one gradient accumulation part, if any."""
        if not self._held_out:
            return None
        size = max(1, self.recipe.batch_size // self.recipe.gradient_accumulation_steps)
        return self._batches(self._held_out, batch_size=size, drop_remainder=False)

    def baselines(self) -> dict[str, float]:
        """Scores models without context on the held-out records, if there are any."""
        if self.task.baselines is None or self._held_out is None:
            return {}
        options = {"batch_size": 1024, "drop_remainder": False}
        both = (self._batches(each, **options) for each in (self._training, self._held_out))
        return self.task.baselines(*both, vocab_size=len(self.vocabulary))

    def _batches(self, records: Records, **options: Any) -> Batches:
        return records.batches(masking=self.masking, objective=self.task.examples, **options)
