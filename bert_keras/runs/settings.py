"""Finds the recipe, the task and the distillation that the arguments of a run name."""

import dataclasses
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, get_args, get_origin

from bert_keras.checkpoints.formats import stored_config
from bert_keras.config import default_recipe
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.names import ALIASES
from bert_keras.downstream.task import Task
from bert_keras.errors import InputError, check_name, print_field
from bert_keras.fields import help_texts
from bert_keras.files import StrPath
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.recipes import FINETUNE, PRETRAIN, FinetuneRecipe, PretrainRecipe

Changes = Mapping[str, Any] | Iterable[str]  # see `with_changes`
OPTIONS = {"epochs": "num_epochs", "steps": "num_steps"}  # options of the commands -> fields


def with_changes(*settings: Any, changes: Changes) -> tuple:
    """Returns dataclass instances with changed fields, in their order; a None stays None.

    The `changes` are values by field, or texts FIELD=VALUE, which are converted to the type of the
    field; commas separate the values of a tuple. Each change applies to every instance that has the
    field. Raises InputError if no instance has it, or for a value of another type.
    """
    changes = changes_by_field(changes)
    tables = [_fields(one) if one else {} for one in settings]
    for name in changes:
        check_name(name, [known for table in tables for known in table], what="setting")
    changed = []
    for one, table in zip(settings, tables, strict=True):
        values = {name: _converted(v, table[name]) for name, v in changes.items() if name in table}
        changed.append(dataclasses.replace(one, **values) if values else one)
    return tuple(changed)


def changes_by_field(changes: Changes) -> dict[str, Any]:
    """Returns changes as values by field; the values of texts FIELD=VALUE are still texts."""
    if not isinstance(changes, Mapping):
        changes = [changes] if isinstance(changes, str) else [*changes]
        for text in changes:
            if "=" not in text:
                raise InputError(f"{text!r} is not a setting; expected FIELD=VALUE without spaces")
        changes = dict(text.split("=", 1) for text in changes)
    return {OPTIONS.get(name, name): value for name, value in changes.items()}


def described(settings: Any) -> dict[str, str]:
    """Returns FIELD=VALUE for each field that can be changed, with the help text of the field."""
    texts, lines = help_texts(type(settings)), {}
    for name in _fields(settings):
        value = getattr(settings, name)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        lines[f"{name}={text.lower() if value in (True, False) else text}"] = texts[name]
    return lines


def _fields(settings: Any) -> dict[str, dataclasses.Field]:
    """Returns the fields that can be changed, by name."""
    fields = dataclasses.fields(settings)
    return {each.name: each for each in fields if "is_fixed" not in each.metadata}


def _converted(value: Any, field: dataclasses.Field) -> Any:
    """Returns the value of a field for a text or for a value of the type of the field."""
    kind: Any = field.type
    if isinstance(kind, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    is_tuple = get_origin(kind) is tuple
    kind = get_args(kind)[0] if is_tuple else kind
    if isinstance(value, str):
        values = value.split(",") if is_tuple else [value]
    else:
        values = value if is_tuple and isinstance(value, (list, tuple)) else [value]
    try:
        converted = [_as(kind, each) for each in values]
    except (KeyError, TypeError, ValueError) as error:
        names = {bool: "true or false", int: "a whole number", float: "a number"}
        name, kind = field.name, names.get(kind, "a text")
        raise InputError(f"{name} is {value!r}; expected {kind}") from error
    return tuple(converted) if is_tuple else converted[0]


def _as(kind: type, value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}[value] if kind is bool else kind(value)
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, (kind, int)):
        raise TypeError
    return kind(value)


def named_recipe(recipes: Mapping[str, Any], name: str, *, changes: Changes = ()) -> Any:
    """Returns the recipe of a name with changes; raises InputError if one of them is unknown."""
    check_name(name, recipes, what="recipe")
    return with_changes(recipes[name], changes=changes)[0]


def task_recipes(task: str) -> dict[str, FinetuneRecipe]:
    """Returns the fine-tuning recipes for the task of a name."""
    task = ALIASES.get(task, task)
    return {name: recipes.get(task, recipes[""]) for name, recipes in FINETUNE.items()}


def pretrain_settings(
    recipe: str | PretrainRecipe, *, teacher: StrPath | Distillation | None, changes: Changes
) -> tuple[PretrainRecipe, Distillation | None]:
    """Returns the recipe and the distillation of a pretraining, both with the changes.

    Another number of steps scales `num_warmup_steps` and `last_step`, unless they are changed too.
    """
    found = named_recipe(PRETRAIN, recipe) if isinstance(recipe, str) else recipe
    changes = changes_by_field(changes)
    if teacher and not isinstance(teacher, Distillation):
        teacher = Distillation.of_pretraining(teacher)
    if "num_steps" in changes:
        parts = {"num_warmup_steps": found.num_warmup_steps, "last_step": found.last_step}
        bare = dataclasses.replace(found, **dict.fromkeys(parts, 0))
        (bare,) = with_changes(bare, changes={"num_steps": changes["num_steps"]})
        scaled = {name: end * bare.num_steps // found.num_steps for name, end in parts.items()}
        changes = scaled | changes
    found, distillation = with_changes(found, teacher or None, changes=changes)
    first_part(found)  # InputError for a mistake in `first_changes`
    return found, distillation


def first_part(recipe: PretrainRecipe) -> PretrainRecipe | None:
    """Returns the recipe of the first steps of a run, None without a first part."""
    if not recipe.first_steps:
        return None
    end = {"first_share": 0.0, "first_changes": (), "last_step": recipe.first_steps}
    return with_changes(dataclasses.replace(recipe, **end), changes=recipe.first_changes)[0]


def finetune_settings(
    task: str | Task,
    recipe: str | FinetuneRecipe | None,
    *,
    pretrained: StrPath,
    teacher: StrPath | Distillation | None,
    changes: Changes,
) -> tuple[Task, FinetuneRecipe, Distillation | None]:
    """Returns the task, the recipe and the distillation of a fine-tuning, with the changes.

    Args:
        task: A task or its name.
        recipe: A recipe or its name. For None, the recipe for the hidden size of the pretrained
            checkpoint is printed and used.
        pretrained: The checkpoint, which is only read without a recipe.
        teacher: The checkpoint of a teacher, or a distillation.
        changes: As in `with_changes`.
    """
    if isinstance(task, str):
        task = named_task(task)
    if recipe is None:
        size = stored_config(pretrained).hidden_size
        recipe = default_recipe(size)
        print_field("recipe", f"{recipe}, because the hidden size is {size:,}")
    found = named_recipe(task_recipes(task.name), recipe) if isinstance(recipe, str) else recipe
    if teacher and not isinstance(teacher, Distillation):
        teacher = Distillation.of_task(teacher)
    found, known, distillation = with_changes(found, task, teacher or None, changes=changes)
    return known, found, distillation
