"""Reads the examples of a task, for a fine-tuning or for the scores of a model."""

import contextlib
import dataclasses
import io
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_keras.checkpoints import native
from bert_keras.checkpoints.formats import absolute_path, detect_format
from bert_keras.checkpoints.hub import located
from bert_keras.config import ModelMetadata
from bert_keras.downstream.catalog import task_of
from bert_keras.downstream.names import ZERO_SHOT
from bert_keras.downstream.sentences.pairs import SENTENCE_PAIRS_TASK
from bert_keras.downstream.task import Task, examples_file
from bert_keras.downstream.tfds import is_tfds
from bert_keras.errors import InputError, check_name, counted, listed
from bert_keras.files import StrPath, file_sha256
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.settings import Changes, changes_by_field, with_changes

DEV_SEED = 1
LEAST_EXAMPLES = 10  # without a dev file


@dataclass(frozen=True)
class TaskData:
    """The examples of a fine-tuning, which are read and checked once."""

    task: Task  # with the labels of the training examples
    files: Mapping[str, str]  # the file of each split
    train: Sequence
    dev: Sequence
    notes: Sequence[tuple[str, str]]  # names and texts for `say`, when the training starts

    def run_settings(
        self, recipe: FinetuneRecipe, distillation: Distillation | None, *, pretrained: StrPath
    ) -> dict[str, Any]:
        """Returns the settings of a fine-tuning that must be the same to continue it."""
        used = {split: self.files[split] for split in ("train", "dev") if split in self.files}
        local = {split: os.path.abspath(path) for split, path in used.items() if not is_tfds(path)}
        teaching = {"distillation": dataclasses.asdict(distillation)} if distillation else {}
        return {
            "files": {split: file_sha256(path) for split, path in local.items()},
            "task": self.task.settings(),
            "pretrained": absolute_path(pretrained),
            **used,
            **local,
            **teaching,
            **dataclasses.asdict(recipe),
        }


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
        train, dev, single = divided(train)
        counts = f"{len(dev):,} of the {len(train) + len(dev):,} examples of {files['train']}"
        notes = [("dev", f"{counts}; the other examples are trained")]
        if single:
            names = listed([*map(repr, sorted(single))], most=5, mark=", ")
            notes.append(("labels", f"{names}: a single row, which is trained and not scored"))
    return TaskData(task, files, train, dev, notes)


def data_files(task: Task, data: StrPath | Mapping[str, StrPath]) -> dict[str, str]:
    """Returns the file of each split of `data`, as in `finetune`."""
    files = data if isinstance(data, Mapping) else task.files(data)
    for split in files:
        check_name(split, task.file_names, what="split of the data")
    return {split: os.fspath(path) for split, path in files.items()}


def needs_tensorflow(data: StrPath | Mapping[str, StrPath]) -> bool:
    """Returns whether TensorFlow Datasets reads the data of `finetune`."""
    return any(map(is_tfds, data.values() if isinstance(data, Mapping) else [data]))


def divided(examples: Sequence) -> tuple[list, list, set[str]]:
    """Divides examples into nine tenths and a random tenth, each label in proportion.

    Examples with the same passage stay together. Also returns the labels of a single example, which
    is not held out.
    """
    keys = [getattr(each, "context", number) for number, each in enumerate(examples)]
    pairs = [*zip(keys, examples, strict=True)]
    counts = Counter(getattr(each, "label", None) for each in examples)
    single = {label for label, n in counts.items() if n == 1 and isinstance(label, str)}
    labels = {key: str(getattr(each, "label", "")) for key, each in pairs}
    order = random.Random(DEV_SEED).sample([*labels], len(labels))
    order = sorted((key for key in order if labels[key] not in single), key=labels.__getitem__)
    if not order or len(labels) < LEAST_EXAMPLES:
        raise InputError(
            f"{counted(len(labels), 'example')} or passages are too few to hold out a tenth; "
            f"expected {LEAST_EXAMPLES}, or --dev FILE (data={{'dev': FILE}})"
        )
    held_out = {*order[len(order) % 10 // 2 :: 10]}
    train = [each for key, each in pairs if key not in held_out]
    return train, [each for key, each in pairs if key in held_out], single


def task_examples(
    metadata: ModelMetadata,
    data: StrPath,
    *,
    source: StrPath,
    task: str | None = None,
    split: str = "dev",
    changes: Changes = (),
) -> tuple[Task, Sequence]:
    """Returns the task of a model, with the changes, and the examples of `data`.

    Args:
        metadata: The metadata of the model.
        data: A file of the task, a folder or `tfds:NAME`.
        source: The name of the model in errors.
        task: The name of the task; None takes the task on which the model was fine-tuned.
        split: The split of a folder or of `tfds:NAME`.
        changes: New values of settings of the task.
    """
    (known,) = with_changes(task_of(metadata, name=task, source=source), changes=changes)
    dataclasses.replace(metadata, max_length=known.max_length)  # InputError if it is too long
    return known, known.read(examples_file(known, data, split=split), split=split)


def variant_examples(
    metadata: ModelMetadata, data: StrPath, **settings: Any
) -> tuple[Task, Sequence]:
    """Returns `task_examples` that score an export; embeddings are scored on sentence pairs."""
    changes = changes_by_field(settings["changes"])
    settings["changes"] = {"max_length": metadata.max_length, **changes}  # as the export cuts
    if metadata.embedding is not None:
        settings["task"] = settings["task"] or SENTENCE_PAIRS_TASK.name
    known, examples = task_examples(metadata, data, **settings)
    known.check_labels(examples)
    return known, examples


def check_examples(read: Callable, model: str, data: str, **settings: Any) -> None:
    """Reads the examples of a command before TensorFlow loads, unless this needs TensorFlow.

    The command reads them again, and prints its notes on them then.

    Args:
        read: `task_examples` or `variant_examples`.
        model: The model of the command.
        data: The data of the command.
        **settings: Other arguments of `read`.
    """
    folder = located(model)
    if is_tfds(data) or settings["task"] in ZERO_SHOT or detect_format(folder) is not native:
        return
    with contextlib.redirect_stderr(io.StringIO()):
        read(native.read_metadata(folder), data, source=model, **settings)
