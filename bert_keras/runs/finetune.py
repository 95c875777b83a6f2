"""Fine-tunes a checkpoint on a task and writes the best model, its scores and its predictions."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.formats import absolute_path
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.distribution.strategy import is_chief
from bert_keras.downstream.task import Task
from bert_keras.downstream.tfds import is_tfds
from bert_keras.files import StrPath, file_sha256
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.outcome import (
    MODEL,
    RunResult,
    claimed_output,
    model_folder,
    read_scores,
    write_scores,
)
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.task_run import TaskRun
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.loop import fit_resumable
from bert_keras.training.tensorboard import NormsByLayer, write_hyperparameters


def finetune(
    task: str | Task,
    recipe: str | FinetuneRecipe = "paper",
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
        recipe: The hyperparameters, or the name of a recipe: "paper", "small-models" for hidden
            sizes under 768, "laptop" for models of `laptop-10min`, or "demo".
        pretrained: A checkpoint of any format. A model of the same task and labels keeps its head.
        data: A folder with the task's official files, a TFDS builder as `tfds:NAME`, or the paths
            of the files "train" and "dev".
        output: The folder for the best model, its predictions on dev, logs and scores.
        teacher: A model of the same task from which to distil. It is not saved.
        features: The folder for the encoder outputs that a task with a frozen encoder computes
            once; several runs may share it. The default is `output`/features.
        **changes: New values of fields of the recipe, the task and the distillation, such as
            `num_epochs=4`, `max_length=256` or `alpha_soft=1.0`.

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
        pretrained="bert-base-uncased",
        data="glue/MRPC",
        output="runs/mrpc",
        num_epochs=1,
    )
    print(result.scores["accuracy"], result.model)
    ```
    """
    run = TaskRun(
        task,
        recipe,
        pretrained=pretrained,
        data=data,
        teacher=teacher,
        features=Path(output) / "features" if features is None else features,
        **changes,
    )
    teaching = {}
    if run.distillation is not None:
        teaching = {"distillation": dataclasses.asdict(run.distillation)}
    paths = {
        split: file if is_tfds(file) else os.path.abspath(file)
        for split, file in run.files.items()
        if split in ("train", "dev")
    }
    claim = claimed_output(
        output,
        recipe=run.recipe,
        files={name: file_sha256(path) for name, path in paths.items() if not is_tfds(path)},
        task=run.task.settings(),
        pretrained=absolute_path(pretrained),
        **paths,
        **teaching,
    )
    with claim as folder:
        scores = read_scores(folder)
        if scores is None:
            scores = _train(run, folder, teaching=teaching)
    return RunResult(scores, folder / MODEL)


def _train(run: TaskRun, output: Path, *, teaching: dict) -> dict:
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
        run.trained, lambda: run.train, settings, evaluations=evaluations, board=[NormsByLayer()]
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
        "train_rows": len(run.rows),
        "dev_rows": len(run.dev_examples),
    }
    save_model(
        run.model,
        model_folder(output),
        metadata=run.metadata,
        vocabulary=run.checkpoint.vocabulary,
        sections={
            "Data": {split: Path(run.files[split]).name for split in ("train", "dev")},
            "Task": run.task.settings(),
            "Recipe": dataclasses.asdict(recipe),
            "Scores on dev": scores,
        },
    )
    values = {"task": task.name, **dataclasses.asdict(recipe), **teaching}
    write_hyperparameters(output / "logs" / "final", values, scores=scores, step=run.num_steps)
    return write_scores(output, scores)
