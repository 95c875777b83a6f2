"""Finds what the arguments of a run name: recipe, task, distillation and examples."""

import contextlib
import dataclasses
import io
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from bert_keras.checkpoints import native
from bert_keras.checkpoints.formats import absolute_path, detect_format, stored_config
from bert_keras.checkpoints.hub import locate
from bert_keras.config import ModelMetadata, default_recipe
from bert_keras.downstream.catalog import ZERO_SHOT, named_task, task_of
from bert_keras.downstream.sentences.pairs import SENTENCE_PAIRS_TASK
from bert_keras.downstream.table import is_tfds
from bert_keras.downstream.task import Task, examples_file
from bert_keras.errors import InputError, check_name, counted, listed, print_field
from bert_keras.fields import help_texts
from bert_keras.files import StrPath, check_exists, file_sha256
from bert_keras.runs.distillation import OF_PRETRAINING, OF_TASK, Distillation
from bert_keras.runs.recipes import FINETUNE, PRETRAIN, FinetuneRecipe, PretrainRecipe

Changes = Mapping[str, Any] | Iterable[str]  # see `with_changes`
OPTIONS = {"epochs": "num_epochs", "steps": "num_steps"}  # options of the commands -> fields


def with_changes(*settings: Any, changes: Changes) -> tuple:
    """Returns dataclass instances with changed fields, in the same order; None stays None.

    The `changes` are values by field, or texts FIELD=VALUE, which are converted to the type of the
    field; commas separate the values of a tuple. A change applies to every instance with the field.
    """
    changes = changes_by_field(changes)
    tables = [_fields(one) if one else {} for one in settings]
    for name in changes:
        check_name(name, [known for table in tables for known in table], what="setting")
    changed = []
    for one, table in zip(settings, tables, strict=True):
        values = {n: _convert_value(v, table[n]) for n, v in changes.items() if n in table}
        changed.append(dataclasses.replace(one, **values) if values else one)
    return tuple(changed)


def changes_by_field(changes: Changes) -> dict[str, Any]:
    """Returns changes as values by field; the values of texts FIELD=VALUE are still texts."""
    if not isinstance(changes, Mapping):
        changes = [changes] if isinstance(changes, str) else list(changes)
        for text in changes:
            if "=" not in text:
                raise InputError(f"{text!r} is not a setting; expected FIELD=VALUE without spaces")
        changes = dict(text.split("=", 1) for text in changes)
    return {OPTIONS.get(name, name): value for name, value in changes.items()}


def describe_settings(settings: Any) -> dict[str, str]:
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


def _convert_value(value: Any, field: dataclasses.Field) -> Any:
    """Converts a text, or a value of the field's type, to the value of a field."""
    value_type: Any = field.type
    if isinstance(value_type, UnionType):
        value_type = next(one for one in get_args(value_type) if one is not type(None))
    is_tuple = get_origin(value_type) is tuple
    value_type = get_args(value_type)[0] if is_tuple else value_type
    is_bool = value_type is bool
    values = value.split(",") if is_tuple and isinstance(value, str) else value
    values = values if is_tuple and isinstance(values, (list, tuple)) else [value]

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return {"true": True, "false": False}[value] if is_bool else value_type(value)
        if isinstance(value, bool) != is_bool or not isinstance(value, (value_type, int)):
            raise TypeError
        return value_type(value)

    try:
        results = [convert(value) for value in values]
    except (KeyError, TypeError, ValueError) as error:
        names = {bool: "true or false", int: "a whole number", float: "a number"}
        expected = names.get(value_type, "a text")
        raise InputError(f"{field.name} is {value!r}; expected {expected}") from error
    return tuple(results) if is_tuple else results[0]


def named_recipe(recipes: Mapping[str, Any], name: str, *, changes: Changes = ()) -> Any:
    """Returns the recipe of a name with changes; raises InputError if one of them is unknown."""
    check_name(name, recipes, what="recipe")
    return with_changes(recipes[name], changes=changes)[0]


def task_recipes(task: str) -> dict[str, FinetuneRecipe]:
    """Returns the fine-tuning recipes for the task of a name."""
    return {name: recipes.get(task, recipes[""]) for name, recipes in FINETUNE.items()}


def pretrain_settings(
    recipe: str | PretrainRecipe, *, teacher: StrPath | Distillation | None, changes: Changes
) -> tuple[PretrainRecipe, Distillation | None]:
    """Returns the recipe and the distillation of a pretraining run, both with the changes.

    A change of `num_steps` scales `num_warmup_steps` and `last_step`, unless they change too.
    """
    chosen = named_recipe(PRETRAIN, recipe) if isinstance(recipe, str) else recipe
    changes = changes_by_field(changes)
    if teacher and not isinstance(teacher, Distillation):
        teacher = Distillation(teacher=absolute_path(teacher), **OF_PRETRAINING)
    if "num_steps" in changes:
        steps = {"num_warmup_steps": chosen.num_warmup_steps, "last_step": chosen.last_step}
        bare = dataclasses.replace(chosen, **dict.fromkeys(steps, 0))
        (bare,) = with_changes(bare, changes={"num_steps": changes["num_steps"]})
        scaled = {name: n * bare.num_steps // chosen.num_steps for name, n in steps.items()}
        changes = scaled | changes
    chosen, distillation = with_changes(chosen, teacher or None, changes=changes)
    first_part(chosen)  # raises InputError for a mistake in `first_changes`
    return chosen, distillation


def first_part(recipe: PretrainRecipe) -> PretrainRecipe | None:
    """Returns the recipe of the first steps of a run, or None if they have no own recipe."""
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
    """Returns the task, the recipe and the distillation of a fine-tuning run, with the changes.

    Args:
        recipe: A recipe or its name; None takes the recipe for the model's hidden size.
        teacher: A distillation or the model from which to distil; None for no distillation.
    """
    if isinstance(task, str):
        task = named_task(task)
    if recipe is None:
        size = stored_config(pretrained).hidden_size
        recipe = default_recipe(size)
        print_field("recipe", f"{recipe}, because the hidden size is {size:,}")
    chosen = named_recipe(task_recipes(task.name), recipe) if isinstance(recipe, str) else recipe
    if teacher and not isinstance(teacher, Distillation):
        teacher = Distillation(teacher=absolute_path(teacher), **OF_TASK)
    chosen, changed, distillation = with_changes(chosen, task, teacher or None, changes=changes)
    return changed, chosen, distillation


@dataclass(frozen=True)
class TaskData:
    """The examples of a fine-tuning run, which are read and checked once."""

    task: Task  # has the labels of the training examples
    files: Mapping[str, str]  # the file of each split
    train: Sequence
    dev: Sequence
    notes: Sequence[tuple[str, str]]  # arguments of `print_field`, printed before the training

    def run_settings(
        self, recipe: FinetuneRecipe, distillation: Distillation | None, *, pretrained: StrPath
    ) -> dict[str, Any]:
        """Returns the settings that must be the same to continue a fine-tuning run."""
        used = {split: self.files[split] for split in ("train", "dev") if split in self.files}
        local = {split: os.path.abspath(path) for split, path in used.items() if not is_tfds(path)}
        digests = {split: file_sha256(path) for split, path in local.items()}
        start = absolute_path(pretrained)
        settings = {"files": digests, "task": self.task.settings(), "pretrained": start}
        settings |= used | local
        if distillation:
            settings["distillation"] = dataclasses.asdict(distillation)
        return settings | dataclasses.asdict(recipe)


def read_task_data(task: Task, data: StrPath | Mapping[str, StrPath]) -> TaskData:
    """Reads the data of `finetune`, and holds out dev examples if there is no dev file."""
    files = data_files(task, data)
    train = task.read(files["train"], split="train")
    task = task.with_labels_of(train)
    if "dev" in files:
        dev, notes = task.read(files["dev"], split="dev"), []
        if Path(files["dev"]).resolve() == Path(files["train"]).resolve():
            notes = [("dev", "is the training file: the scores are on training data")]
    else:
        train, dev, single_labels = split_held_out(train)
        counts = f"{len(dev):,} of the {len(train) + len(dev):,} examples of {files['train']}"
        notes = [("dev", f"{counts}; the other examples are trained")]
        if single_labels:
            names = listed(list(map(repr, sorted(single_labels))), most=5, mark=", ")
            notes.append(("labels", f"{names}: a single row, which is trained and not scored"))
    return TaskData(task, files, train, dev, notes)


def data_files(task: Task, data: StrPath | Mapping[str, StrPath]) -> dict[str, str]:
    """Returns the file of each split of `data`, as in `finetune`."""
    files = data if isinstance(data, Mapping) else task.files(data)
    for split in files:
        check_name(split, task.file_names, what="split of the data")
    return {split: os.fspath(path) for split, path in files.items()}


def split_held_out(examples: Sequence) -> tuple[list, list, set[str]]:
    """Divides examples into nine tenths and a random tenth, each label in proportion.

    Examples with the same passage stay together. A label of only one example stays in the larger
    part; the third value is the set of these labels.
    """
    keys = [getattr(each, "context", index) for index, each in enumerate(examples)]
    pairs = list(zip(keys, examples, strict=True))
    counts = Counter(getattr(each, "label", None) for each in examples)
    single_labels = {label for label, n in counts.items() if n == 1 and isinstance(label, str)}
    labels = {key: str(getattr(each, "label", "")) for key, each in pairs}
    order = random.Random(1).sample(list(labels), len(labels))
    order = [key for key in order if labels[key] not in single_labels]
    order.sort(key=labels.__getitem__)
    if not order or len(labels) < 10:
        size = f"{counted(len(labels), 'example')} or passages"
        raise InputError(f"{size} are too few for a dev set; give --dev FILE (data={{'dev': …}})")
    held_out = set(order[len(order) % 10 // 2 :: 10])
    train = [each for key, each in pairs if key not in held_out]
    return train, [each for key, each in pairs if key in held_out], single_labels


def task_examples(
    metadata: ModelMetadata,
    data: StrPath,
    *,
    source: StrPath,
    task: str | None = None,
    split: str = "dev",
    changes: Changes = (),
) -> tuple[Task, Sequence]:
    """Returns the task and the examples that `evaluate` scores.

    Args:
        data: A file, or the folder of the task's official files.
        source: The name of the model in error messages.
        task: The name of the task; None for the task of the fine-tuning.
    """
    (scored_task,) = with_changes(task_of(metadata, name=task, source=source), changes=changes)
    dataclasses.replace(metadata, max_length=scored_task.max_length)  # InputError if too long
    return scored_task, scored_task.read(examples_file(scored_task, data, split=split), split=split)


def variant_examples(
    metadata: ModelMetadata, data: StrPath, **settings: Any
) -> tuple[Task, Sequence]:
    """Returns the task and examples that score an export; for embeddings, sentence pairs."""
    changes = changes_by_field(settings["changes"])
    settings["changes"] = {"max_length": metadata.max_length, **changes}  # the export's limit
    if metadata.embedding is not None:
        settings["task"] = settings["task"] or SENTENCE_PAIRS_TASK.name
    task, examples = task_examples(metadata, data, **settings)
    task.check_labels(examples)
    return task, examples


def check_examples(read: Callable, model: str, data: str, **settings: Any) -> None:
    """Reads a command's examples with `read` before TensorFlow is imported, if possible."""
    if not is_tfds(data):
        check_exists(data, expected="a file or a folder")
    folder = locate(model)
    if is_tfds(data) or settings["task"] in ZERO_SHOT or detect_format(folder) is not native:
        return
    with contextlib.redirect_stderr(io.StringIO()):
        read(native.read_metadata(folder), data, source=model, **settings)
