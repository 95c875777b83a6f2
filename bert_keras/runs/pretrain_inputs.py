"""Checks that recipe, records and starting point fit, and prepares them for a pretraining run."""

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
from bert_keras.runs import distillation
from bert_keras.runs.distillation import Teacher, check_fit, check_same_vocabulary
from bert_keras.runs.pretraining_tasks import pretraining_task
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.text import fast_tokenizer
from bert_keras.text.fast_tokenizer import BYTE_SPACE, vocabulary_file, vocabulary_sha256
from bert_keras.text.vocab import seems_lowercase

MANIFEST = "manifest.json"  # written by bert-tfrecords build


@dataclass(frozen=True)
class StartingPoint:
    """The checkpoint from which a pretraining run starts."""

    path: str  # absolute
    checkpoint: TextCheckpoint
    new_parts: tuple[str, ...]  # parts that the checkpoint lacks; they start with random weights

    @property
    def state(self) -> TrainingState | None:
        """The training state; None if there is none or if it lacks a part other than NSP's."""
        can_continue = set(self.new_parts) <= {"pooler", "next_sentence"}
        return self.checkpoint.state if can_continue else None

    @property
    def step(self) -> int:
        """The step of the training state, or 0 if there is none."""
        return self.state.step if self.state else 0

    def __str__(self) -> str:
        """Returns the rows that are appended to the table of a load report."""
        stored, config = self.checkpoint.state, self.checkpoint.metadata.config
        training = "step 0: the checkpoint has no training state"
        if self.state:
            training = f"step {self.step:,}, with the state of the optimizer"
        elif stored:
            new_parts = ", ".join(self.new_parts)
            training = f"step 0: the training state of step {stored.step:,} lacks {new_parts}"
        size = f"{config.num_layers} layers, hidden size {config.hidden_size}"
        return f"{'size':<12}of the checkpoint: {size}\n{'training':<12}{training}"


class PretrainInputs:
    """The inputs of a pretraining run. Constructing it reads and checks all records.

    The arguments and the errors are the same as in `pretrain`.

    Attributes:
        masking: Masks the records; None if they are masked already.
        metadata: The metadata of the model to train.
        tokens_per_example: The mean number of tokens of the first thousand records.
        num_predictions: The number of masked-LM positions of a record; 0 without masked LM.
    """

    def __init__(
        self,
        recipe: PretrainRecipe,
        *,
        records: StrPath,
        pretrained: StrPath | None = None,
        teacher: distillation.Distillation | None = None,
    ):
        self.recipe, self.records = recipe, Path(records)
        self.vocabulary = vocabulary = fast_tokenizer.records_vocabulary(records)
        self.files = record_files(self.records)
        self.held_out_files = sorted(map(str, self.records.glob("held-out*.tfrecord")))
        self.schema = common_schema([*self.files, *self.held_out_files])
        self.task = pretraining_task(recipe.objective, has_labels=self.schema.has_labels)
        self.masking = self._build_masking()
        start = None if pretrained is None else self._open_starting_point(pretrained)
        self.starting_point = start
        self.metadata = self._build_metadata()
        self.teacher = None
        if teacher is not None:
            if self.metadata.task:  # only replaced-token detection sets it
                raise InputError(f"the objective {recipe.objective} has no distillation")
            self.teacher = Teacher(teacher, student=self.metadata, vocabulary=vocabulary)
        self._training = Records(self.files, vocab_size=len(vocabulary))
        held_out = self.held_out_files
        self._held_out = Records(held_out, vocab_size=len(vocabulary)) if held_out else None
        # `num_records` reads every file, so a damaged file is found before the training.
        size = min(1000, self._training.num_records)
        inputs, targets, _ = self._batches(self._training, batch_size=size)[0]
        self.tokens_per_example = float(inputs["input_mask"].sum(axis=1).mean())
        self.num_predictions = targets["masked_lm"].shape[1] if "masked_lm" in targets else 0

    def _build_masking(self) -> DynamicMasking | None:
        recipe = self.recipe
        if self.schema.max_predictions or not self.task.examples.reads_masks:
            reason = f"unless the objective masks tokens and the records contain {PLAIN_IDS}"
            names = ("mask_rate", "mask_unit", "max_ngram", "replacement")
            check_unused(recipe, *names, reason=reason)
            return None
        if recipe.mask_unit == "word" and self.vocabulary.specials.word_start == BYTE_SPACE:
            remedy = "write records with bert-tfrecords build --mask-unit word"
            raise InputError(f"mask_unit is word, but the vocabulary is byte-level BPE; {remedy}")
        policy = recipe.masking_policy(max_length=self.schema.max_length)
        return DynamicMasking(Masker(policy, self.vocabulary), seed=recipe.seed)

    def _open_starting_point(self, path: StrPath) -> StartingPoint:
        checkpoint = open_text_checkpoint(path)
        metadata = checkpoint.metadata
        check_same_vocabulary(checkpoint, self.vocabulary, source=path)
        needed = {
            "is_causal": (metadata.config.is_causal, self.task.is_causal),
            "num_lstm_layers": (metadata.config.num_lstm_layers, 0),
        }
        lowercase = self._manifest_lowercase()
        if lowercase is not None:
            needed["lowercase"] = (metadata.lowercase, lowercase)
        check_fit(needed, source=path, remedy="choose another checkpoint, records or objective")
        metadata = dataclasses.replace(metadata, config=self._with_recipe_settings(metadata.config))
        lacking = missing_parts(checkpoint, heads=self.task.model.kind.heads, metadata=metadata)
        start = StartingPoint(absolute_path(path), checkpoint, tuple(lacking))
        if start.step >= self.recipe.end:
            end = f"the run ends at step {self.recipe.end:,}; raise num_steps"
            raise InputError(f"{path} has a training state of step {start.step:,}, but {end}")
        return start

    def _build_metadata(self) -> ModelMetadata:
        recipe, start = self.recipe, self.starting_point
        kind, task_settings = self.task.model.kind, {}
        if "generator" in kind.heads:
            task_settings = {"generator_size": recipe.generator_size}
            if start is not None and "generator" not in start.new_parts:
                task_settings = {"generator_size": start.checkpoint.metadata.task["generator_size"]}
        if start is not None:
            config = start.checkpoint.metadata.config
            lowercase = start.checkpoint.metadata.lowercase
        else:
            config = preset(
                recipe.size,
                vocab_size=len(self.vocabulary),
                initializer_stddev=recipe.initializer_stddev,
                has_pooler=False,
                is_causal=self.task.is_causal,
            )
            stated = self._manifest_lowercase()
            lowercase = seems_lowercase(self.vocabulary) if stated is None else stated
        return ModelMetadata(
            model=kind.model,
            config=self._with_recipe_settings(config),
            lowercase=lowercase,
            max_length=self.schema.max_length,
            task=task_settings,
        )

    def _with_recipe_settings(self, config: BertConfig) -> BertConfig:
        """Returns a configuration with the recipe's dropout rate, and a pooler if it is needed."""
        return dataclasses.replace(
            config,
            hidden_dropout_rate=self.recipe.dropout_rate,
            attention_dropout_rate=self.recipe.dropout_rate,
            has_pooler=config.has_pooler or self.task.model.kind.reads_pooled_output,
        )

    def _manifest_lowercase(self) -> bool | None:
        """Returns `lowercase` of the records' manifest, or None if there is no manifest."""
        manifest = self.records / MANIFEST
        if not manifest.is_file():
            return None
        values = json_object(manifest)
        if values["vocabulary"]["sha256"] != vocabulary_sha256(self.vocabulary):
            file = self.records / vocabulary_file(self.vocabulary)[0]
            raise InputError(
                f"{file} does not match its SHA-256 in {MANIFEST}; copy the right file"
            )
        return values["settings"]["lowercase"]

    def file_states(self) -> dict[str, int | str]:
        """Returns the sizes of the record files, and the digests of vocabulary and manifest."""
        files = (*self.files, *self.held_out_files)
        sizes = {Path(file).name: os.path.getsize(file) for file in files}
        small = (self.records / name for name in (vocabulary_file(self.vocabulary)[0], MANIFEST))
        return sizes | {path.name: file_sha256(path) for path in small if path.is_file()}

    def training_batches(self) -> Batches:
        """Returns endless shuffled batches."""
        order = {"batch_size": self.recipe.batch_size, "seed": self.recipe.seed}
        return self._batches(self._training, **order, repeat=True)

    def held_out_batches(self) -> Batches | None:
        """Returns batches of the size of a gradient accumulation step, or None without records."""
        if not self._held_out:
            return None
        size = max(1, self.recipe.batch_size // self.recipe.gradient_accumulation_steps)
        return self._batches(self._held_out, batch_size=size, drop_remainder=False)

    def baselines(self) -> dict[str, float]:
        """Returns the held-out scores of context-free baselines, {} without held-out records."""
        if self.task.baselines is None or self._held_out is None:
            return {}
        options = {"batch_size": 1024, "drop_remainder": False}
        both = (self._batches(each, **options) for each in (self._training, self._held_out))
        return self.task.baselines(*both, vocab_size=len(self.vocabulary))

    def _batches(self, records: Records, **options: Any) -> Batches:
        return records.batches(masking=self.masking, objective=self.task.examples, **options)
