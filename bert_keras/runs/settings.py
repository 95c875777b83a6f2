"""Finds the task, the recipe and the distillation that the arguments of a run name."""

import contextlib
import dataclasses
import io
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, get_args, get_origin

from bert_keras.checkpoints import native
from bert_keras.checkpoints.formats import absolute_path, detect_format, stored_config
from bert_keras.checkpoints.hub import located
from bert_keras.config import ModelMetadata, default_recipe
from bert_keras.downstream.catalog import named_task, task_of
from bert_keras.downstream.names import ALIASES, ZERO_SHOT
from bert_keras.downstream.sentences.pairs import SENTENCE_PAIRS_TASK
from bert_keras.downstream.task import Task, examples_file
from bert_keras.downstream.tfds import is_tfds
from bert_keras.errors import InputError, check, check_name, counted, listed, print_field, quoted
from bert_keras.fields import help_texts
from bert_keras.files import StrPath, file_sha256
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.recipes import FINETUNE, PRETRAIN, FinetuneRecipe, PretrainRecipe

Changes = Mapping[str, Any] | Iterable[str]  # see `with_changes`
DEV_SEED = 1
LEAST_EXAMPLES = 10  # without a dev file
OPTIONS = {"epochs": "num_epochs", "steps": "num_steps"}  # options of the commands -> fields


def with_changes(*settings: Any, changes: Changes) -> tuple:
    """Returns dataclass instances with changed fields, in their order; a None stays None.

    The `changes` are values by field, or texts FIELD=VALUE, which are converted to the type of the
    field; commas separate the values of a tuple. Each change applies to every instance that has the
    field. Raises InputError if none has it, or for a value of another type.
    """
    for one in filter(None, settings):
        expected = "expected a name, or an object such as recipes['demo']"
        check(dataclasses.is_dataclass(one), f"{quoted(one)} is no task or recipe; {expected}")
    changes = _by_field(changes)
    tables = [_fields(one) if one else {} for one in settings]
    for name in changes:
        check_name(name, [known for table in tables for known in table], what="setting")
    changed = []
    for one, table in zip(settings, tables, strict=True):
        values = {name: _converted(v, table[name]) for name, v in changes.items() if name in table}
        changed.append(dataclasses.replace(one, **values) if values else one)
    return tuple(changed)


def _fields(settings: Any) -> dict[str, dataclasses.Field]:
    fields = dataclasses.fields(settings)
    return {each.name: each for each in fields if "is_fixed" not in each.metadata}


def described(settings: Any) -> dict[str, str]:
    """Returns FIELD=VALUE for each field that can be changed, with the help text of the field."""
    texts, lines = help_texts(type(settings)), {}
    for name in _fields(settings):
        value = getattr(settings, name)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        lines[f"{name}={text.lower() if value in (True, False) else text}"] = texts[name]
    return lines


def _by_field(changes: Changes) -> dict[str, Any]:
    if not isinstance(changes, Mapping):
        changes = [changes] if isinstance(changes, str) else changes
        for text in (changes := [*changes]):
            check("=" in text, f"{text!r} is not a setting; expected FIELD=VALUE without spaces")
        changes = dict(text.split("=", 1) for text in changes)
    return {OPTIONS.get(name, name): value for name, value in changes.items()}


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
        expected = names.get(kind, "a text")
        raise InputError(f"{field.name} is {value!r}; expected {expected}") from error
    return tuple(converted) if is_tuple else converted[0]


def _as(kind: type, value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}[value] if kind is bool else kind(value)
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, (kind, int)):
        raise TypeError
    return kind(value)


def named_recipe(recipes: Mapping[str, Any], name: str, *, changes: Changes = ()) -> Any:
    """Returns the recipe of a name with changes; raises InputError if one is unknown."""
    check_name(name, recipes, what="recipe")
    return with_changes(recipes[name], changes=changes)[0]


def task_recipes(task: str) -> dict[str, FinetuneRecipe]:
    """Returns the fine-tuning recipes for the task of a name."""
    task = ALIASES.get(task, task)
    return {name: recipes.get(task, recipes[""]) for name, recipes in FINETUNE.items()}


def data_files(task: Task, data: StrPath | Mapping[str, StrPath]) -> dict[str, str]:
    """Returns the file of each split of `data`, as in `finetune`."""
    is_path = isinstance(data, (Mapping, str, os.PathLike))
    check(is_path, f"data is {quoted(data)}; expected a folder, or {{'train': FILE}}")
    files = data if isinstance(data, Mapping) else task.files(data)
    for split in files:
        check_name(split, task.file_names, what="split of the data")
        is_path = isinstance(files[split], (str, os.PathLike))
        check(is_path, f"data has {quoted(files[split])}; expected a file; model.fit takes texts")
    check("train" in files, "data names no file for 'train'")
    return {split: os.fspath(path) for split, path in files.items()}


def divided(examples: Sequence) -> tuple[list, list]:
    """Divides examples into nine tenths and a random tenth, each label in proportion.

    Examples with the same passage stay together, and a class with one example is not held out.
    """
    keys = [getattr(each, "context", number) for number, each in enumerate(examples)]
    pairs = [*zip(keys, examples, strict=True)]
    counts = Counter(getattr(each, "label", None) for each in examples)
    single = {label for label, n in counts.items() if n == 1 and isinstance(label, str)}
    labels = {key: str(getattr(each, "label", "")) for key, each in pairs}
    found = f"without a dev file, {counted(len(labels), 'example')} or passages are too few"
    order = random.Random(DEV_SEED).sample([*labels], len(labels))
    order = sorted((key for key in order if labels[key] not in single), key=labels.__getitem__)
    is_large = order and len(labels) >= LEAST_EXAMPLES
    check(is_large, f"{found}; expected {LEAST_EXAMPLES}, or --dev FILE (data={{'dev': FILE}})")
    if single:
        names = listed([*map(repr, sorted(single))], most=5, mark=", ")
        print_field(
            "labels", f"{names}: a single row, which is trained and not scored", file=sys.stderr
        )
    held_out = {*order[len(order) % 10 // 2 :: 10]}
    train = [each for key, each in pairs if key not in held_out]
    return train, [each for key, each in pairs if key in held_out]


def check_files(task: Task, data: StrPath | Mapping[str, StrPath]) -> dict[str, str]:
    """Returns `data_files` after reading them; {} for TFDS, which needs TensorFlow."""
    if any(map(is_tfds, data.values() if isinstance(data, Mapping) else [data])):
        return {}
    files = data_files(task, data)
    with contextlib.redirect_stderr(io.StringIO()):  # the run reads them, too, and prints its notes
        examples = task.read(files["train"], split="train")
        task = task.with_labels_of(examples)
        task.read(files["dev"], split="dev") if "dev" in files else divided(examples)
    return files


def task_examples(
    metadata: ModelMetadata,
    data: StrPath,
    *,
    source: StrPath,
    task: str | None,
    split: str,
    changes: Changes,
    is_scored: bool = False,
) -> tuple[Task, Sequence]:
    """Returns the task of a model, with the changes, and the examples of `data`; see `evaluate`."""
    (known,) = with_changes(task_of(metadata, name=task, source=source), changes=changes)
    dataclasses.replace(metadata, max_length=known.max_length)  # InputError if it is too long
    examples = known.read(examples_file(known, data, split=split), split=split)
    if is_scored:
        known.check_labels(examples)
    return known, examples


def variant_examples(
    metadata: ModelMetadata, data: StrPath, *, task: str | None, changes: Changes, **settings: Any
) -> tuple[Task, Sequence]:
    """Returns `task_examples` that score an export; those of embeddings are sentence-pairs."""
    task = task or (None if metadata.embedding is None else SENTENCE_PAIRS_TASK.name)
    changes = {"max_length": metadata.max_length, **_by_field(changes)}  # as the export cuts
    settings |= {"task": task, "changes": changes, "split": "dev", "is_scored": True}
    return task_examples(metadata, data, **settings)


def check_examples(read: Callable, model: str, data: str, *, task: str | None, **settings) -> None:
    """Reads examples by a function above as a command will, unless that needs TensorFlow."""
    folder = located(model)
    if is_tfds(data) or task in ZERO_SHOT or detect_format(folder) is not native:
        return
    metadata = native.read_metadata(folder)
    with contextlib.redirect_stderr(io.StringIO()):
        read(metadata, data, source=model, task=task, **settings)


def pretrain_settings(
    recipe: str | PretrainRecipe, *, teacher: StrPath | Distillation | None, changes: Changes
) -> tuple[PretrainRecipe, Distillation | None]:
    """Returns the recipe and the distillation of a pretraining, both with the changes.

    Another number of steps scales `num_warmup_steps` and `last_step`, unless they are changed, too.
    """
    found = named_recipe(PRETRAIN, recipe) if isinstance(recipe, str) else recipe
    changes = _by_field(changes)
    if teacher and not isinstance(teacher, Distillation):
        teacher = Distillation.of_pretraining(teacher)
    if "num_steps" in changes:
        parts = {"num_warmup_steps": found.num_warmup_steps, "last_step": found.last_step}
        bare = dataclasses.replace(found, **dict.fromkeys(parts, 0))
        (bare,) = with_changes(bare, changes={"num_steps": changes["num_steps"]})
        scaled = {name: end * bare.num_steps // found.num_steps for name, end in parts.items()}
        changes = scaled | changes
    found, distillation = with_changes(found, teacher or None, changes=changes)
    first_part(found)  # reports what is wrong in `first_changes`
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

    Without a recipe, that for the hidden size of the pretrained checkpoint is printed and used.
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


def finetune_claim(
    task: Task,
    recipe: FinetuneRecipe,
    distillation: Distillation | None,
    *,
    pretrained: StrPath,
    files: Mapping[str, str],
) -> dict[str, Any]:
    """Returns the arguments of `claimed_output` for a fine-tuning."""
    used = {split: files[split] for split in ("train", "dev") if split in files}
    local = {split: os.path.abspath(path) for split, path in used.items() if not is_tfds(path)}
    teaching = {"distillation": dataclasses.asdict(distillation)} if distillation else {}
    return {
        "recipe": recipe,
        "files": {split: file_sha256(path) for split, path in local.items()},
        "task": task.settings(),
        "pretrained": absolute_path(pretrained),
        **used,
        **local,
        **teaching,
    }
