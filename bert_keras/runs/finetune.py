"""Fine-tunes a checkpoint on a task and writes the best model, its scores and its predictions."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.formats import stored_config
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.distribution.strategy import is_chief
from bert_keras.downstream.task import Task
from bert_keras.errors import suggest_keyword_names
from bert_keras.files import StrPath
from bert_keras.runs import outcome
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.settings import TaskData, finetune_settings, read_task_data
from bert_keras.runs.task_run import TaskRun
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.loop import fit_resumable
from bert_keras.training.tensorboard import NormsByLayer


@suggest_keyword_names
def finetune(
    task: str | Task,
    recipe: str | FinetuneRecipe | None = None,
    *,
    pretrained: StrPath,
    data: StrPath | Mapping[str, StrPath] | TaskData,
    output: StrPath,
    teacher: StrPath | Distillation | None = None,
    features: StrPath | None = None,
    **changes: Any,
) -> outcome.RunResult:
    """Fine-tunes a checkpoint on a task, scores the dev examples after every epoch, keeps the best.

    `bert-keras finetune` calls this function. A second call with the same arguments continues an
    interrupted run. The function trains with the distribution strategy in whose scope it is called
    and with Keras' dtype policy.

    Args:
        task: A task or its name in `tasks`. If the task does not fix its labels, they are taken
            from the training examples.
        recipe: The hyperparameters, or the name of a recipe: "paper", "small-models", "laptop" for
            models of `laptop-10min`, or "demo". None means "small-models" for hidden sizes under
            768, and "paper" for larger sizes.
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
        InputError: An argument is invalid, or `output` belongs to another run.

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
    task, recipe, distillation = finetune_settings(
        task, recipe, pretrained=pretrained, teacher=teacher, changes=changes
    )
    task.check_encoder(stored_config(pretrained))  # before the data are read
    data = data if isinstance(data, TaskData) else read_task_data(task, data)
    settings = data.run_settings(recipe, distillation, pretrained=pretrained)
    run = None
    if outcome.read_scores(Path(output)) is None:  # errors are raised before a folder is made
        features = Path(output) / "features" if features is None else features
        inputs = {"pretrained": pretrained, "data": data, "teacher": distillation}
        run = TaskRun(task, recipe, **inputs, features=features)
    with outcome.claimed_output(output, settings) as folder:
        scores = outcome.finished_scores(folder) if run is None else _train(run, folder)
    return outcome.RunResult(scores or {}, folder / outcome.MODEL)


def _train(run: TaskRun, output: Path) -> dict:
    """Trains in a claimed output folder; returns the scores as `finetune` does."""
    recipe = run.recipe
    options = {"metric": run.task.metric, "folder": output, "patience": recipe.patience}
    evaluations = Evaluations(run.scores, **options)
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
    logged = {"evaluations": evaluations, "board": [NormsByLayer()]}
    fit_resumable(run.trained, lambda: run.batches, settings, **logged)
    evaluations.restore_best(run.trained)
    outputs, loss = run.dev_outputs()
    predictions = run.dev_predictions(outputs)
    tuned = run.task.tuned(run.dev_examples, predictions)
    if tuned != run.task:
        run.task = tuned
        run.metadata = dataclasses.replace(run.metadata, task=tuned.settings())
        predictions = run.dev_predictions(outputs)
    if not is_chief():
        return {}
    path = output / run.task.prediction_file
    run.task.write_predictions(path, run.dev_examples, predictions)
    scores = {
        **run.scores(predictions, loss=loss),
        **run.task.baseline(run.examples, run.dev_examples),
        "best_step": evaluations.best["step"],
        "steps": run.num_steps,
        "train_examples": len(run.examples),
        "train_rows": len(run.rows),
        "dev_rows": len(run.dev_examples),
    }
    files = {name: Path(run.files.get(name, "a tenth of train")).name for name in ("train", "dev")}
    recipe = dataclasses.asdict(run.recipe)
    sections = {"Data": files, "Task": run.task.settings(), "Recipe": recipe}
    save_model(
        run.model,
        output / outcome.MODEL,
        metadata=run.metadata,
        vocabulary=run.checkpoint.vocabulary,
        overwrite=True,  # a run that was killed may have written it
        sections=sections | {"Scores on dev": scores},
    )
    return outcome.write_scores(output, scores)
