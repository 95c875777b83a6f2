"""Prepares the data and the model of a fine-tuning run."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import keras

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.checkpoints.pretrained import build_model, missing_parts
from bert_keras.config import ModelMetadata, warn_high_rate
from bert_keras.data.batches import Batches, training_batches
from bert_keras.data.encoded import Encoded, print_num_truncated
from bert_keras.distribution.loss import global_loss
from bert_keras.downstream.predictor import Predictor
from bert_keras.downstream.task import Outputs, Task
from bert_keras.errors import InputError, check_unused, print_field
from bert_keras.files import StrPath
from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import MODELS
from bert_keras.runs.distillation import Distillation, Teacher
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.settings import TaskData, finetune_settings, read_task_data
from bert_keras.training.optimizer import BertAdamW, LinearWarmupDecay


class TaskRun:
    """The data and the model of a fine-tuning run, for a training loop of your own.

    `finetune` adds logs, checkpoints, predictions and the choice of the best epoch, and raises the
    same errors.

    Args:
        task: A task or its name; this and all other arguments are as in `finetune`.

    Attributes:
        task: The task, with its labels.
        steps_per_epoch: The number of batches that contain every training row once.
        num_steps: The number of steps of the whole run.
        model: The complete model of the task, whose outputs are the predictions.
        trained: The compiled model for `fit`: the part of `model` whose weights are trained, and
            with a teacher the `Distiller` around it.

    Example:

    ```python
    run = TaskRun("mrpc", pretrained="google-bert/bert-base-uncased", data="glue/MRPC")
    run.trained.fit(run.train, steps_per_epoch=run.steps_per_epoch, shuffle=False)
    print(run.scores())
    ```
    """

    def __init__(
        self,
        task: str | Task,
        recipe: str | FinetuneRecipe | None = None,
        *,
        pretrained: StrPath,
        data: StrPath | Mapping[str, StrPath] | TaskData,
        teacher: StrPath | Distillation | None = None,
        features: StrPath = "features",
        **changes: Any,
    ):
        task, self.recipe, self.distillation = finetune_settings(
            task, recipe, pretrained=pretrained, teacher=teacher, changes=changes
        )
        self.pretrained, self.features = pretrained, Path(features)
        warn_high_rate(self.recipe.learning_rate)
        self.checkpoint = open_text_checkpoint(pretrained)
        self._check_settings(task)
        data = data if isinstance(data, TaskData) else read_task_data(task, data)
        for name, note in data.notes:
            print_field(name, note, file=sys.stderr)
        self.task, self.files, self.dev_examples = data.task, data.files, data.dev
        size = min(self.recipe.max_train_examples or len(data.train), len(data.train))
        self.examples = [data.train[i * len(data.train) // size] for i in range(size)]
        tokenizer = self.checkpoint.tokenizer
        self._encoded = self.task.encode(self.examples, tokenizer)
        self._dev_encoded = self.task.encode_to_score(self.dev_examples, tokenizer)
        print_num_truncated(self._encoded, self._dev_encoded, max_length=self.task.max_length)
        self.steps_per_epoch = self._count_batches()
        self.num_steps = self.recipe.num_epochs * self.steps_per_epoch
        if self.num_steps < 100:
            remedy = "try 8 epochs and a batch size of 8"
            print_field("steps", f"only {self.num_steps} training steps; {remedy}", file=sys.stderr)
        self.metadata, self.teacher = self._build_metadata(), None
        if self.distillation is not None:
            student = {"student": self.metadata, "vocabulary": self.checkpoint.vocabulary}
            self.teacher = Teacher(self.distillation, **student)
        keras.utils.set_random_seed(self.recipe.seed)
        self.model = self._build_model()
        self.trained = self._compile_trained()

    def _count_batches(self) -> int:
        """Returns the number of batches of an epoch; those of `DistinctTexts` may be smaller."""
        recipe, num_rows, num_batches = self.recipe, 0, 0
        batches = self._encoded.shuffled_batches(batch_size=recipe.batch_size, seed=recipe.seed)
        while num_rows < len(self._encoded):
            num_rows += len(next(batches))
            num_batches += 1
        return num_batches

    def _check_settings(self, task: Task) -> None:
        """Raises InputError for settings that the task or the checkpoint cannot use."""
        source, unused = self.checkpoint.metadata, []
        task.check_encoder(source.config)
        if task.freezes_encoder:
            unused += ["num_lstm_layers", "layerwise_lr_decay"]
        if not KINDS[task.model].reads_pooled_output:
            unused.append("classifier_pooling")
        check_unused(self.recipe, *unused, reason=f"on the task {task.name}")
        can_distil = not task.freezes_encoder and task.embedding(source) is None
        if self.distillation is not None and not can_distil:
            problem = f"{task.name} freezes its encoder or outputs embeddings"
            raise InputError(f"{problem}, so it cannot be distilled; remove teacher")

    def _build_metadata(self) -> ModelMetadata:
        task, recipe, source = self.task, self.recipe, self.checkpoint.metadata
        return ModelMetadata(
            model=task.model,
            config=dataclasses.replace(
                source.config,
                hidden_dropout_rate=recipe.dropout_rate,
                attention_dropout_rate=recipe.dropout_rate,
                head_dropout_rate=-1.0,
                has_pooler=source.config.has_pooler or KINDS[task.model].reads_pooled_output,
                num_lstm_layers=recipe.num_lstm_layers or source.config.num_lstm_layers,
                pooling=recipe.classifier_pooling or source.config.pooling,
            ),
            **source.tokenizer_settings,
            max_length=task.max_length,
            text_columns=task.input_names,
            labels=task.labels,
            problem_type=task.problem_type,
            task=task.settings(),
            embedding=task.embedding(source),
        )

    def _build_model(self) -> keras.Model:
        """Builds the model with the weights of the checkpoint or with random weights."""
        model_class, metadata = MODELS[self.task.model], self.metadata
        if self.recipe.initial_weights == "random":
            model = model_class.from_metadata(metadata)
        else:
            origin = {"source": self.pretrained, "new_parts": self._new_parts()}
            model = build_model(model_class, self.checkpoint, metadata=metadata, **origin)
            print(model.load_report)
        model.encoder.gradient_checkpointing = self.recipe.gradient_checkpointing
        return model

    def _new_parts(self) -> set[str]:
        """Returns the parts that start with random weights.

        The checkpoint lacks them, or they are heads that were trained on another task.
        """
        heads = KINDS[self.metadata.model].heads
        new = set(missing_parts(self.checkpoint, heads=heads, metadata=self.metadata))
        trained_on, task = (
            (each.model, each.labels, each.task.get("name"), each.task.get("text_columns"))
            for each in (self.checkpoint.metadata, self.metadata)
        )
        return new if trained_on == task else {*new, *heads}

    def _compile_trained(self) -> keras.Model:
        """Returns the compiled model for `fit`; see the attribute `trained`."""
        recipe = self.recipe
        trained_model = student = self.task.trained(self.model)
        self._predictor = Predictor(student)
        if self.teacher is not None:
            student.compile(**_compile_arguments(self.task))
            trained_model = self.teacher.teach(student, metadata=self.metadata)
        warmup = int(recipe.warmup_ratio * self.num_steps)
        steps = {"num_steps": self.num_steps, "num_warmup_steps": warmup}
        trained_model.compile(
            optimizer=BertAdamW(
                LinearWarmupDecay(recipe.learning_rate, **steps),
                weight_decay_rate=recipe.weight_decay_rate,
                bias_correction=recipe.bias_correction,
                layerwise_lr_decay=recipe.layerwise_lr_decay,
            ),
            gradient_accumulation_steps=recipe.gradient_accumulation_steps,
            **_compile_arguments(self.task),
        )
        return trained_model

    @cached_property
    def rows(self) -> Encoded:
        """The encoded training examples in the form that `trained` reads."""
        return self.task.prepared(self._encoded, self.model, folder=self.features / "train")

    @cached_property
    def dev_rows(self) -> Encoded:
        """The encoded dev examples in the form that `trained` reads."""
        return self.task.prepared(self._dev_encoded, self.model, folder=self.features / "dev")

    @property
    def batches(self) -> Batches:
        """Endless shuffled batches of rows of similar length."""
        return training_batches(self.rows, batch_size=self.recipe.batch_size, seed=self.recipe.seed)

    @property
    def train(self):
        """The training batches for `fit`: a `tf.data.Dataset`, or `Batches` with JAX."""
        return self.batches.for_fit()

    def dev_outputs(self) -> tuple[Outputs, float | None]:
        """Returns the outputs of the model for the dev rows, and the mean loss if they have one."""
        return self._predictor(self.dev_rows, stage="predict dev")

    def dev_predictions(self, outputs: Outputs) -> Sequence:
        """Returns the predictions for the dev examples from the outputs of the model."""
        return self.task.predictions(self.dev_examples, self.dev_rows, outputs)

    def scores(
        self, predictions: Sequence | None = None, *, loss: float | None = None
    ) -> dict[str, float]:
        """Returns the scores and the loss; dev predictions that are not given are computed."""
        if predictions is None:
            outputs, loss = self.dev_outputs()
            predictions = self.dev_predictions(outputs)
        losses = {} if loss is None else {"loss": loss}
        return {**self.task.score(self.dev_examples, predictions), **losses}


def _compile_arguments(task: Task) -> dict[str, Any]:
    """Returns the arguments of `compile`, with the mean of each loss over the global batch."""
    arguments = task.compile_arguments()
    if metrics := arguments.pop("metrics", None):  # rows without weights have the same values
        arguments["weighted_metrics"] = metrics  # copied rows have the weight 0
    return arguments | {"loss": keras.tree.map_structure(global_loss, arguments["loss"])}
