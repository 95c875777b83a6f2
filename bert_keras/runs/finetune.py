"""Fine-tunes a checkpoint on a task and writes the best model, its scores and its predictions."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from bert_keras.distribution.strategy import is_chief
from bert_keras.downstream.task import Task
from bert_keras.downstream.tfds import is_tfds
from bert_keras.models.pretrained import save_model
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.outcome import (
    claimed_output,
    has_state,
    model_folder,
    read_scores,
    write_scores,
)
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.task_run import TaskRun
from bert_keras.storage import file_sha256
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.loop import fit_resumable
from bert_keras.training.tensorboard.final import write_hyperparameters
from bert_keras.training.tensorboard.norms import NormsByLayer


def finetune(
    task: Task,
    recipe: FinetuneRecipe,
    *,
    pretrained: str | os.PathLike,
    files: Mapping[str, str],
    output: str | os.PathLike,
    features: str | os.PathLike | None = None,
    distillation: Distillation | None = None,
) -> dict[str, float]:
    """Fine-tunes a checkpoint on a task and scores the dev examples after every epoch.

    A second call with the same arguments continues an interrupted run.

    Args:
        task: The task. If it does not fix its labels, they are taken from the training examples.
        recipe: The hyperparameters.
        pretrained: A checkpoint of any format. A model of the same task and labels keeps its head.
        files: The files "train" and "dev", as `task.files` returns them.
        output: The folder for the best model, its predictions on dev, logs and scores.
        features: The folder for the encoder outputs that a task with a frozen encoder computes
            once; several runs may share it. The default is `output`/features.
        distillation: The teacher and the settings of the distillation. The teacher is not saved.

    Returns:
        The scores of the best epoch and of the task's baseline. Only the first worker writes files
        and returns scores; the other workers return {}.
    """
    run = TaskRun(
        task,
        recipe,
        pretrained=pretrained,
        files=files,
        features=Path(output) / "features" if features is None else features,
        distillation=distillation,
    )
    teaching = {"distillation": dataclasses.asdict(distillation)} if distillation else {}
    data = {split: _absolute(files[split]) for split in ("train", "dev")}
    claim = claimed_output(
        output,
        recipe=recipe,
        files={name: file_sha256(path) for name, path in data.items() if not is_tfds(path)},
        task=run.task.settings(),
        pretrained=os.path.abspath(pretrained),
        **data,
        **teaching,
    )
    with claim as folder:
        if (scores := read_scores(folder)) is not None:
            return scores
        return _train(run, folder, files=files, teaching=teaching)


def _train(run: TaskRun, output: Path, *, files: Mapping[str, str], teaching: dict) -> dict:
    """Trains in a claimed output folder; returns the scores as `finetune` does."""
    recipe, task = run.recipe, run.task
    run.resumed = has_state(output)
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
    tuned = run.task.tuned(run.dev_examples, predictions)
    if tuned != run.task:
        run.task = tuned
        predictions = run.dev_predictions(outputs)
    run.task.write_predictions(output / task.prediction_file, run.dev_examples, predictions)
    scores = {
        **run.task.score(run.dev_examples, predictions),
        "loss": loss,
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
            "Data": {split: Path(files[split]).name for split in ("train", "dev")},
            "Task": run.task.settings(),
            "Recipe": dataclasses.asdict(recipe),
            "Scores on dev": scores,
        },
    )
    settings = {"task": task.name, **dataclasses.asdict(recipe), **teaching}
    write_hyperparameters(output / "logs" / "final", settings, scores=scores, step=run.num_steps)
    return write_scores(output, scores)


def _absolute(path: str) -> str:
    return path if is_tfds(path) else os.path.abspath(path)
