"""Prepares the fine-tuning of a task: batches, the compiled model and its scores on dev."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.config import ModelMetadata
from bert_keras.downstream.batches import Predictor, training_batches
from bert_keras.downstream.task import Encoded, Outputs, Task
from bert_keras.errors import InputError
from bert_keras.files import StrPath
from bert_keras.models import MODELS
from bert_keras.runs.distillation import Distillation, open_teacher
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.settings import finetune_settings
from bert_keras.runs.starting_point import missing_parts
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.schedule import LinearWarmupDecay


class TaskRun:
    """The data and the model of a fine-tuning run, for a training loop of your own.

    All files are read and checked when the run is built. Weights are loaded when `model` is first
    used.

    The arguments and errors are those of `finetune`, which adds logs, checkpoints, predictions and
    the choice of the best epoch.

    Args:
        task: A task or its name in `tasks`.
        recipe: The hyperparameters, or the name of a recipe.
        pretrained: A checkpoint of any format.
        data: A folder with the task's official files, a TFDS builder as `tfds:NAME`, or the paths
            of the files "train" and "dev".
        teacher: A model of the same task from which to distil.
        features: The folder for features of a frozen encoder.
        **changes: New values of fields of the recipe, the task and the distillation.

    Attributes:
        task: The task, with its labels.
        recipe: The recipe.
        files: The files "train" and "dev".

    Example:

    ```python
    run = TaskRun("mrpc", pretrained="minilm", data="glue/MRPC", num_epochs=1)
    run.trained.fit(run.train, steps_per_epoch=run.steps_per_epoch, shuffle=False)
    print(run.scores())
    ```
    """

    def __init__(
        self,
        task: str | Task,
        recipe: str | FinetuneRecipe = "paper",
        *,
        pretrained: StrPath,
        data: StrPath | Mapping[str, StrPath],
        teacher: StrPath | Distillation | None = None,
        features: StrPath = "features",
        **changes: Any,
    ):
        task, recipe, self.distillation = finetune_settings(
            task, recipe, teacher=teacher, changes=changes
        )
        self.recipe, self.pretrained, self.features = recipe, pretrained, Path(features)
        files = data if isinstance(data, Mapping) else task.files(os.fspath(data))
        self.files = {split: os.fspath(path) for split, path in files.items()}
        if missing := {"train", "dev"} - {*self.files}:
            raise InputError(f"data has no {' and '.join(sorted(missing))}; name the file of each")
        self.checkpoint = open_text_checkpoint(pretrained)
        task.check_encoder(self.checkpoint.metadata.config)
        for name, default in (("num_lstm_layers", 0), ("layer_rate_decay", 1.0)):
            if task.freezes_encoder and getattr(recipe, name) != default:
                raise InputError(
                    f"{name} is {getattr(recipe, name)}, but {task.name} does not train the "
                    f"encoder; leave {name} out"
                )
        examples = task.read(self.files["train"], split="train")
        self.task = task.with_labels_of(examples)
        num_used = min(recipe.max_train_examples or len(examples), len(examples))
        self.examples = [examples[i * len(examples) // num_used] for i in range(num_used)]
        self.dev_examples = self.task.read(self.files["dev"], split="dev")
        self.resumed = False
        self._rows = self.task.encode(self.examples, self.checkpoint.tokenizer)
        self._dev_rows = self.task.encode_to_score(self.dev_examples, self.checkpoint.tokenizer)
        self.teacher = None
        if self.distillation is not None:
            if task.freezes_encoder or self.metadata.embedding is not None:
                what = "does not train the encoder" if task.freezes_encoder else "has no logits"
                raise InputError(
                    f"{task.name} {what}, so it has no use for a teacher; leave --teacher out"
                )
            vocabulary = self.checkpoint.vocabulary
            self.teacher = open_teacher(
                self.distillation, student=self.metadata, vocabulary=vocabulary
            )

    @property
    def metadata(self) -> ModelMetadata:
        """The metadata of the model."""
        task, source = self.task, self.checkpoint.metadata
        return ModelMetadata(
            model=task.model,
            config=dataclasses.replace(
                source.config,
                hidden_dropout_rate=self.recipe.dropout_rate,
                attention_dropout_rate=self.recipe.dropout_rate,
                has_pooler=source.config.has_pooler or MODELS[task.model].reads_pooled_output,
                num_lstm_layers=self.recipe.num_lstm_layers or source.config.num_lstm_layers,
            ),
            lowercase=source.lowercase,
            max_length=task.max_length,
            text_columns=task.input_names,
            labels=task.labels,
            problem_type=task.problem_type,
            task=task.settings(),
            embedding=task.embedding(source),
        )

    @cached_property
    def steps_per_epoch(self) -> int:
        """The number of steps that read every training row once, in the first epoch."""
        recipe = self.recipe
        batches = self._rows.shuffled_batches(batch_size=recipe.batch_size, seed=recipe.seed)
        counts = enumerate(accumulate(map(len, batches)), start=1)
        return next(step for step, num_rows in counts if num_rows == len(self._rows))

    @property
    def num_steps(self) -> int:
        """The number of steps of the whole run."""
        return self.recipe.num_epochs * self.steps_per_epoch

    @cached_property
    def model(self) -> keras.Model:
        """The complete model of the task."""
        keras.utils.set_random_seed(self.recipe.seed)
        is_restored = self.resumed and not self.task.freezes_encoder
        if self.recipe.initial_weights == "random" or is_restored:
            return MODELS[self.task.model].from_metadata(self.metadata)
        model = MODELS[self.task.model].from_checkpoint(
            self.checkpoint, metadata=self.metadata, source=self.pretrained, new=self._new_parts()
        )
        print(model.load_report)
        return model

    @cached_property
    def student(self) -> keras.Model:
        """The part of the model that is trained: all of it, unless the encoder is frozen."""
        return self.task.trained(self.model)

    @cached_property
    def trained(self) -> keras.Model:
        """The compiled model for `fit`: the student, or with a teacher its `Distiller`."""
        arguments, trained = self.task.compile_arguments(), self.student
        if self.teacher is not None:
            self.student.compile(**arguments)  # the dev loss includes only the labels
            trained = self.teacher.teach(self.student, metadata=self.metadata)
            arguments = self.task.compile_arguments()
        schedule = LinearWarmupDecay(
            self.recipe.learning_rate,
            num_steps=self.num_steps,
            num_warmup_steps=int(self.recipe.warmup_rate * self.num_steps),
        )
        optimizer = BertAdamW(
            schedule,
            weight_decay_rate=self.recipe.weight_decay_rate,
            bias_correction=self.recipe.bias_correction,
            layer_rate_decay=self.recipe.layer_rate_decay,
        )
        trained.compile(
            optimizer=optimizer,
            gradient_accumulation_steps=self.recipe.gradient_accumulation_steps,
            **arguments,
        )
        return trained

    @cached_property
    def rows(self) -> Encoded:
        """The encoded training examples in the form that `trained` reads."""
        return self.task.prepared(self._rows, self.model, folder=self.features / "train")

    @cached_property
    def dev_rows(self) -> Encoded:
        """The encoded dev examples in the form that `trained` reads."""
        return self.task.prepared(self._dev_rows, self.model, folder=self.features / "dev")

    @property
    def train(self) -> tf.data.Dataset:
        """Endless shuffled batches of rows of similar length."""
        return training_batches(self.rows, batch_size=self.recipe.batch_size, seed=self.recipe.seed)

    @cached_property
    def _predictor(self) -> Predictor:
        _ = self.trained  # compiles the student
        return Predictor(self.student)

    def dev_outputs(self) -> tuple[Outputs, float | None]:
        """Returns the outputs of the model for the dev rows, and the mean loss if they have one."""
        return self._predictor(self.dev_rows, stage="predict dev")

    def dev_predictions(self, outputs: Outputs) -> Sequence:
        """Returns the predictions for the dev examples from the outputs of the model."""
        return self.task.predictions(self.dev_examples, self.dev_rows, outputs)

    def dev_scores(self, predictions: Sequence, loss: float | None) -> dict[str, float]:
        """Returns the scores of predictions for the dev examples, and `loss` if there is one."""
        losses = {} if loss is None else {"loss": loss}
        return {**self.task.score(self.dev_examples, predictions), **losses}

    def scores(self) -> dict[str, float]:
        """Returns the scores of the dev examples, and `loss` if the dev rows have one."""
        outputs, loss = self.dev_outputs()
        return self.dev_scores(self.dev_predictions(outputs), loss)

    def _new_parts(self) -> set[str]:
        """Returns the parts that get fresh weights.

        These are the parts that the checkpoint lacks, and the heads if it was trained on another
        task or other labels.
        """
        metadata, source = self.metadata, self.checkpoint.metadata
        heads = MODELS[metadata.model].heads
        new = {*missing_parts(self.checkpoint, heads=heads, config=metadata.config)}
        names = ("name", "text_columns")
        old_task, new_task = (
            (each.model, each.labels, *map(each.task.get, names)) for each in (source, metadata)
        )
        return new if old_task == new_task else {*new, *heads}
