"""Scores a fine-tuned model or a file of predictions on the examples of a task."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from bert_keras.downstream.batches import Predictor
from bert_keras.downstream.catalog import named_task, task_of
from bert_keras.downstream.task import Task
from bert_keras.errors import InputError
from bert_keras.models import load_model
from bert_keras.options import with_changes


@dataclass(frozen=True)
class TaskPredictions:
    """A task, examples of it and their predictions, which are computed on first access."""

    task: Task
    examples: Sequence
    predict: Callable[[], Sequence]  # returns one prediction for each example

    @cached_property
    def predictions(self) -> Sequence:
        """One prediction for each example."""
        return self.predict()

    def scores(self) -> dict[str, float]:
        """Returns the scores of the predictions; raises InputError for an unknown label."""
        self.task.check_labels(self.examples)
        return self.task.score(self.examples, self.predictions)

    def write(self, path: str | os.PathLike) -> None:
        """Writes the prediction file of the task."""
        self.task.write_predictions(path, self.examples, self.predictions)


def model_predictions(
    name: str,
    *,
    model: str | os.PathLike,
    data: str,
    split: str = "dev",
    changes: Iterable[str] = (),
    batch_size: int = 32,
) -> TaskPredictions:
    """Prepares the predictions of a fine-tuned model for the examples of a data folder.

    Args:
        name: The name of the task.
        model: The folder of the model.
        data: The data folder of the task.
        split: The split to read. Examples of "dev" must have labels; those of "test" need none.
        changes: Changes of the task's settings, each of the form `FIELD=VALUE`.
        batch_size: Rows per batch.

    Returns:
        The examples and their predictions.

    Raises:
        InputError: The model folder has no vocabulary, or a setting or example is invalid.
    """
    loaded = load_model(model)
    metadata, tokenizer = loaded.metadata, loaded.tokenizer
    if metadata is None or tokenizer is None:
        raise InputError(
            f"{model} contains no vocabulary; copy its vocab.txt or tokenizer.json there"
        )
    task = task_of(metadata, name=name, source=model)
    (task,) = with_changes(task, changes=changes)
    dataclasses.replace(metadata, max_length=task.max_length)  # raises InputError if it is too long
    examples = task.read(data, split=split)

    def predict() -> Sequence:
        encoded = task.encode(examples, tokenizer)
        outputs, _ = Predictor(loaded)(encoded, batch_size=batch_size)
        return task.predictions(examples, encoded, outputs)

    return TaskPredictions(task, examples, predict)


def file_predictions(
    name: str, *, predictions: str | os.PathLike, data: str, changes: Iterable[str] = ()
) -> TaskPredictions:
    """Reads the predictions for labelled examples from a file that `bert-keras predict` wrote.

    If the task does not fix its labels, they are taken from the examples.

    Args:
        name: The name of the task.
        predictions: The file of predictions.
        data: The data folder of the task, whose "dev" split is read.
        changes: Changes of the task's settings, each of the form `FIELD=VALUE`.

    Returns:
        The examples and their predictions.
    """
    (task,) = with_changes(named_task(name), changes=changes)
    examples = task.read(data, split="dev")
    task = task.with_labels_of(examples)
    return TaskPredictions(task, examples, partial(task.read_predictions, predictions, examples))
