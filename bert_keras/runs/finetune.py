"""Fine-tunes a checkpoint on a task and writes the best model, its scores and its predictions."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import keras

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.checkpoints.pretrained import missing_parts, save_model
from bert_keras.config import ModelMetadata, warn_high_rate
from bert_keras.data.batches import Batches
from bert_keras.data.encoded import Encoded, say_cut
from bert_keras.distribution.loss import global_loss
from bert_keras.distribution.strategy import is_chief
from bert_keras.downstream.batches import Predictor, training_batches
from bert_keras.downstream.task import Outputs, Task
from bert_keras.errors import check, print_field, suggest_keyword_names
from bert_keras.files import StrPath
from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import MODELS
from bert_keras.runs.distillation import Distillation, open_teacher
from bert_keras.runs.outcome import (
    MODEL,
    RunResult,
    claimed_output,
    finished_scores,
    model_folder,
    read_scores,
    write_scores,
)
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.settings import data_files, divided, finetune_claim, finetune_settings
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.loop import fit_resumable
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.schedule import LinearWarmupDecay
from bert_keras.training.tensorboard import NormsByLayer, write_hyperparameters

FEW_STEPS = 100
HELD_OUT = "a tenth of train"  # in place of the name of a dev file


class TaskRun:
    """The data and the model of a fine-tuning run, for a training loop of your own.

    The arguments and errors are those of `finetune`, which adds logs, checkpoints, predictions and
    the choice of the best epoch, and writes to `output`.

    Attributes:
        task: The task, with its labels.
        steps_per_epoch: The number of steps that read every training row once.
        num_steps: The number of steps of the whole run.
        model: The complete model of the task.
        trained: The compiled model for `fit`: the part of `model` that is trained, or with a
            teacher its `Distiller`.

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
        data: StrPath | Mapping[str, StrPath],
        teacher: StrPath | Distillation | None = None,
        features: StrPath = "features",
        **changes: Any,
    ):
        task, recipe, self.distillation = finetune_settings(
            task, recipe, pretrained=pretrained, teacher=teacher, changes=changes
        )
        self.recipe, self.pretrained, self.features = recipe, pretrained, Path(features)
        warn_high_rate(recipe.learning_rate)
        self.files = data_files(task, data)
        self.checkpoint = open_text_checkpoint(pretrained)
        task.check_encoder(self.checkpoint.metadata.config)
        for name, default in (("num_lstm_layers", 0), ("layerwise_lr_decay", 1.0)):
            check(
                not task.freezes_encoder or getattr(recipe, name) == default,
                f"{task.name} does not train the encoder; leave {name} out",
            )
        has_pooler = KINDS[task.model].reads_pooled_output
        found = f"the models of {task.name} have no pooler"
        check(has_pooler or not recipe.classifier_pooling, f"{found}; omit classifier_pooling")
        examples = task.read(self.files["train"], split="train")
        self.task = task.with_labels_of(examples)
        if "dev" in self.files:
            self.dev_examples = self.task.read(self.files["dev"], split="dev")
            if len({Path(self.files[name]).resolve() for name in ("train", "dev")}) == 1:
                print_field(
                    "dev", "is the training file: the scores are of trained rows", file=sys.stderr
                )
        else:
            examples, self.dev_examples = divided(examples)
            counts = f"{len(self.dev_examples):,} of the {len(examples + self.dev_examples):,}"
            where = f"examples of {self.files['train']}; the others are trained"
            print_field("dev", f"{counts} {where}", file=sys.stderr)
        num_used = min(recipe.max_train_examples or len(examples), len(examples))
        self.examples = [examples[i * len(examples) // num_used] for i in range(num_used)]
        self._encoded = self.task.encode(self.examples, self.checkpoint.tokenizer)
        self._dev_encoded = self.task.encode_to_score(self.dev_examples, self.checkpoint.tokenizer)
        say_cut(self._encoded, self._dev_encoded, max_length=self.task.max_length)
        # The steps that read every row once, in the first epoch.
        batches = self._encoded.shuffled_batches(batch_size=recipe.batch_size, seed=recipe.seed)
        counts = enumerate(accumulate(map(len, batches)), start=1)
        self.steps_per_epoch = next(step for step, n in counts if n == len(self._encoded))
        self.num_steps = recipe.num_epochs * self.steps_per_epoch
        if self.num_steps < FEW_STEPS:
            remedy = "try --batch-size 8 --epochs 8 (batch_size=8, num_epochs=8)"
            print_field("steps", f"{self.num_steps}, which are few; {remedy}", file=sys.stderr)
        self.metadata = self._metadata()
        self.teacher = None
        if self.distillation is not None:
            check(
                not task.freezes_encoder and self.metadata.embedding is None,
                f"{task.name} trains no encoder with logits; leave teacher out",
            )
            vocabulary = self.checkpoint.vocabulary
            self.teacher = open_teacher(
                self.distillation, student=self.metadata, vocabulary=vocabulary
            )
        keras.utils.set_random_seed(recipe.seed)
        if recipe.initial_weights == "random":
            self.model = MODELS[task.model].from_metadata(self.metadata)
        else:
            self.model = MODELS[task.model].from_checkpoint(
                self.checkpoint, metadata=self.metadata, source=pretrained, new=self._new_parts()
            )
            print(self.model.load_report)
        self.model.encoder.gradient_checkpointing = recipe.gradient_checkpointing
        self.trained = student = self.task.trained(self.model)
        self._predictor = Predictor(student)
        if self.teacher is not None:
            student.compile(**_compile_arguments(self.task))  # the dev loss has only the labels
            self.trained = self.teacher.teach(student, metadata=self.metadata)
        schedule = LinearWarmupDecay(
            recipe.learning_rate,
            num_steps=self.num_steps,
            num_warmup_steps=int(recipe.warmup_ratio * self.num_steps),
        )
        self.trained.compile(
            optimizer=BertAdamW(
                schedule,
                weight_decay_rate=recipe.weight_decay_rate,
                bias_correction=recipe.bias_correction,
                layerwise_lr_decay=recipe.layerwise_lr_decay,
            ),
            gradient_accumulation_steps=recipe.gradient_accumulation_steps,
            **_compile_arguments(self.task),
        )

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
        """The batches for `fit`: a `tf.data.Dataset` with TensorFlow, `Batches` with JAX."""
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
        """Returns the scores of the dev examples, and `loss` if the dev rows have one.

        Args:
            predictions: The predictions; None computes them and the loss.
            loss: The loss.
        """
        if predictions is None:
            outputs, loss = self.dev_outputs()
            predictions = self.dev_predictions(outputs)
        losses = {} if loss is None else {"loss": loss}
        return {**self.task.score(self.dev_examples, predictions), **losses}

    def _metadata(self) -> ModelMetadata:
        task, recipe, source = self.task, self.recipe, self.checkpoint.metadata
        reads_pooler = KINDS[task.model].reads_pooled_output
        return ModelMetadata(
            model=task.model,
            config=dataclasses.replace(
                source.config,
                hidden_dropout_rate=recipe.dropout_rate,
                attention_dropout_rate=recipe.dropout_rate,
                has_pooler=source.config.has_pooler or reads_pooler,
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

    def _new_parts(self) -> set[str]:
        """Returns the parts that get fresh weights: absent ones, heads of other tasks or labels."""
        metadata, checkpoint = self.metadata, self.checkpoint
        heads = KINDS[metadata.model].heads
        new = {*missing_parts(checkpoint, heads=heads, metadata=metadata)}
        names = ("name", "text_columns")
        old_task, new_task = (
            (each.model, each.labels, *map(each.task.get, names))
            for each in (checkpoint.metadata, metadata)
        )
        return new if old_task == new_task else {*new, *heads}


def _compile_arguments(task: Task) -> dict[str, Any]:
    """Returns the arguments of `compile`, with the mean of each loss over the global batch."""
    arguments = task.compile_arguments()
    return arguments | {"loss": keras.tree.map_structure(global_loss, arguments["loss"])}


@suggest_keyword_names
def finetune(
    task: str | Task,
    recipe: str | FinetuneRecipe | None = None,
    *,
    pretrained: StrPath,
    data: StrPath | Mapping[str, StrPath],
    output: StrPath,
    teacher: StrPath | Distillation | None = None,
    features: StrPath | None = None,
    **changes: Any,
) -> RunResult:
    """Fine-tunes a checkpoint on a task, scores the dev examples after every epoch, keeps the best.

    `bert-keras finetune` calls this function. A second call with the same arguments continues an
    interrupted run. The function trains with the distribution strategy in whose scope it is called
    and with Keras' dtype policy.

    Args:
        task: A task or its name in `tasks`. If the task does not fix its labels, they are taken
            from the training examples.
        recipe: The hyperparameters, or the name of a recipe: "paper", "small-models", "laptop" for
            models of `laptop-10min`, or "demo". None means "small-models" for hidden sizes under
            768, and "paper" for others.
        pretrained: A checkpoint of any format. A model of the same task and labels keeps its head.
        data: A folder with the task's official files, a TFDS builder as `tfds:NAME`, or the paths
            of the files "train" and "dev". Without "dev", a tenth of the training examples is
            held out, the same in every run, with the labels in proportion.
        output: The folder for the best model, its predictions on dev, logs and scores.
        teacher: A model of the same task from which to distil. It is not saved.
        features: The folder for the encoder outputs that a task with a frozen encoder computes
            once; several runs may share it. The default is `output`/features.
        **changes: New values of fields of the recipe (see `FinetuneRecipe`), the task and the
            distillation, such as `num_epochs=4`, `learning_rate=3e-5`, `batch_size=16`,
            `max_length=256` or `alpha_soft=1.0`.

    Returns:
        The scores of the best epoch and of the task's baseline, and the folder of the model. Only
        the first worker writes files and returns scores.

    Raises:
        InputError: The arguments are invalid or do not fit together, or `output` belongs to another
            run.

    Example:

    ```python
    result = finetune(
        "mrpc",
        pretrained="google-bert/bert-base-uncased",
        data="glue/MRPC",
        output="runs/mrpc",
        num_epochs=1,
    )
    print(result.scores["accuracy"], result.model)
    ```
    """
    settings = finetune_settings(
        task, recipe, pretrained=pretrained, teacher=teacher, changes=changes
    )
    task, recipe, teacher = settings
    files = data_files(task, data)
    features = Path(output) / "features" if features is None else features
    inputs = {"data": files, "teacher": teacher, "features": features}
    opened = partial(TaskRun, task, recipe, pretrained=pretrained, **inputs)
    run = None if read_scores(Path(output)) else opened()  # before a folder is made
    claim = finetune_claim(*settings, pretrained=pretrained, files=files)
    with claimed_output(output, **claim) as folder:
        scores = finished_scores(folder) or _train(run or opened(), folder)
    return RunResult(scores, folder / MODEL)


def _train(run: TaskRun, output: Path) -> dict:
    """Trains in a claimed output folder; returns the scores as `finetune` does."""
    recipe, task = run.recipe, run.task
    evaluations = Evaluations(
        run.scores, metric=task.metric, folder=output, patience=recipe.patience
    )
    settings = FitSettings(
        stage="fine-tune",
        output=output,
        num_steps=run.num_steps,
        steps_per_epoch=run.steps_per_epoch,
        epochs_per_checkpoint=1,
        keep_checkpoints=recipe.keep_checkpoints,
        batch_size=recipe.batch_size,
        examples_per_epoch=len(run.rows),
        tokens_per_example=float(run.rows.lengths.mean()),
        points_per_epoch=recipe.logs_per_epoch,
    )
    fit_resumable(
        run.trained, lambda: run.batches, settings, evaluations=evaluations, board=[NormsByLayer()]
    )
    if not is_chief():
        return {}
    evaluations.restore_best(run.trained)
    outputs, loss = run.dev_outputs()
    predictions = run.dev_predictions(outputs)
    tuned = task.tuned(run.dev_examples, predictions)
    if tuned != task:
        run.task = tuned
        run.metadata = dataclasses.replace(run.metadata, task=tuned.settings())
        predictions = run.dev_predictions(outputs)
    run.task.write_predictions(output / task.prediction_file, run.dev_examples, predictions)
    scores = {
        **run.scores(predictions, loss=loss),
        **run.task.baseline(run.examples, run.dev_examples),
        "best_step": evaluations.best["step"],
        "steps": run.num_steps,
        "train_examples": len(run.examples),
        "train_rows": len(run.rows),
        "dev_rows": len(run.dev_examples),
    }
    save_model(
        run.model,
        model_folder(output),
        metadata=run.metadata,
        vocabulary=run.checkpoint.vocabulary,
        sections={
            "Data": {name: Path(run.files.get(name, HELD_OUT)).name for name in ("train", "dev")},
            "Task": run.task.settings(),
            "Recipe": dataclasses.asdict(recipe),
            "Scores on dev": scores,
        },
    )
    values = {"task": task.name, **dataclasses.asdict(recipe)}
    if run.distillation is not None:
        values["distillation"] = dataclasses.asdict(run.distillation)
    write_hyperparameters(output / "logs", values)
    return write_scores(output, scores)
