"""Finds the task, the recipe and the distillation that the arguments of a run name."""

from collections.abc import Iterable, Mapping
from typing import Any

from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.task import Task
from bert_keras.errors import check_name
from bert_keras.files import StrPath
from bert_keras.options import with_changes
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.hyperparameters import FinetuneRecipe, PretrainRecipe
from bert_keras.runs.recipes import FINETUNE, PRETRAIN


def named_recipe(recipes: dict, name: str, *, changes: Iterable[str] = ()):
    """Returns the recipe of a name with changes FIELD=VALUE.

    Raises:
        InputError: The name, a field or a value is unknown.
    """
    check_name(name, recipes, what="recipe")
    return with_changes(recipes[name], changes=changes)[0]


def task_recipes(task: str) -> dict[str, FinetuneRecipe]:
    """Returns the fine-tuning recipes for the task of a name."""
    return {name: recipes.get(task, recipes[""]) for name, recipes in FINETUNE.items()}


def pretrain_settings(
    recipe: str | PretrainRecipe,
    *,
    teacher: StrPath | Distillation | None,
    changes: Mapping[str, Any] | Iterable[str],
) -> tuple[PretrainRecipe, Distillation | None]:
    """Returns the recipe and the distillation of a pretraining.

    Args:
        recipe: A recipe or its name.
        teacher: The folder of the teacher's checkpoint, or the settings of the distillation.
        changes: The new values of fields of both; see `with_changes`.

    Raises:
        InputError: A name, a field or a value is unknown.
    """
    found = named_recipe(PRETRAIN, recipe) if isinstance(recipe, str) else recipe
    if teacher and not isinstance(teacher, Distillation):
        teacher = Distillation.of_pretraining(teacher)
    found, distillation = with_changes(found, teacher or None, changes=changes)
    return found, distillation


def finetune_settings(
    task: str | Task,
    recipe: str | FinetuneRecipe,
    *,
    teacher: StrPath | Distillation | None,
    changes: Mapping[str, Any] | Iterable[str],
) -> tuple[Task, FinetuneRecipe, Distillation | None]:
    """Returns the task, the recipe and the distillation of a fine-tuning.

    Args:
        task: A task or its name.
        recipe: A recipe, or the name of one that `task_recipes` returns.
        teacher: The folder of the teacher's checkpoint, or the settings of the distillation.
        changes: The new values of fields of all three; see `with_changes`.

    Raises:
        InputError: A name, a field or a value is unknown.
    """
    known = named_task(task) if isinstance(task, str) else task
    found = named_recipe(task_recipes(known.name), recipe) if isinstance(recipe, str) else recipe
    if teacher and not isinstance(teacher, Distillation):
        teacher = Distillation.of_task(teacher)
    found, known, distillation = with_changes(found, known, teacher or None, changes=changes)
    return known, found, distillation
