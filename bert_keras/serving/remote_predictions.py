"""Predicts a task's examples with a served model."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bert_keras.downstream.catalog import named_task, with_model_labels
from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.errors import InputError
from bert_keras.files import text_lines
from bert_keras.progress import progress
from bert_keras.runs.evaluate import TaskPredictions
from bert_keras.runs.settings import with_changes
from bert_keras.serving.client import Client

_INPUTS = ("text", "text_pair")  # input names in the serving_default of every text classifier
_TOLERANCE = 1e-3  # largest difference from 1 of the sum of float32 probabilities


def server_predictions(
    name: str, *, server: str, data: str, split: str = "test", changes: Iterable[str] = ()
) -> TaskPredictions:
    """Same as `bert_keras.runs.evaluate.model_predictions`, but with a served model.

    Args:
        name: Name of the task.
        server: URL of the model, as for `Client`.
        data: A file that the task reads, or a .txt file with one text on each line.
        split: Split of the data, such as "dev" or "test".
        changes: Settings of the task as FIELD=VALUE, such as the names of the columns. They may be
            needed because a server does not report the settings with which its model was trained.

    Returns:
        The task with the labels of the model, the examples and their predictions.

    Raises:
        InputError: If the task does not classify or score texts, if the client raises it, or if
            the server's predictions do not fit the task.
    """
    (task,) = with_changes(named_task(name), changes=changes)
    if not isinstance(task, ClassificationTask):
        raise InputError(
            f"the task is {name}; --server supports only tasks that predict classes or numbers for "
            "texts; use --model with the model folder instead"
        )
    examples = _examples(task, data, split=split)
    rows = _server_rows(server, [example.texts for example in examples])
    task, logits = _logits(task, rows, server=server)
    predictions = [task.label_kind.prediction(each, task.labels) for each in logits]
    return TaskPredictions(task, examples, lambda: predictions)


def _examples(task: ClassificationTask, data: str, *, split: str) -> Sequence[TextExample]:
    if Path(data).suffix != ".txt":
        return task.read(data, split=split)
    if len(task.text_columns) > 1:
        raise InputError(
            f"{data} contains one text on each line; {task.name} expects pairs of texts; use a "
            ".tsv, .csv or .jsonl file"
        )
    examples = [
        task.example([line], None, location=f"{data}, line {number}", split=split)
        for number, line in enumerate(text_lines(data), start=1)
    ]
    if not examples:
        raise InputError(f"{data} is empty; expected one text on each line")
    return examples


def _server_rows(server: str, texts: Sequence[tuple[str, ...]]) -> list:
    instances = [dict(zip(_INPUTS, each, strict=False)) for each in texts]
    rows = []
    with (
        Client(server) as client,
        progress(stage="query the server", unit="texts", total=len(texts), leave=False) as bar,
    ):
        for batch in client.batches(instances):
            rows += batch
            bar.update(len(batch))
    return rows


def _logits(
    task: ClassificationTask, rows: list, *, server: str
) -> tuple[ClassificationTask, list[np.ndarray]]:
    """Return the task with the model's labels, and an array for each row of predictions.

    For a regression task, the array holds the predicted number. Otherwise it holds the logits, up
    to a constant, which are computed from the predicted probabilities.
    """
    if task.kind == "number":
        scores = [row.get("score") if isinstance(row, dict) else row for row in rows]
        if not all(isinstance(score, int | float) for score in scores):
            raise _mismatch_error(task, server, "a number")
        return task, [np.array([score]) for score in scores]
    try:
        labels = tuple(rows[0]["labels"])
        probabilities = np.array([row["probabilities"] for row in rows], np.float64)
        predicted_labels = [row["label"] for row in rows]
    except (TypeError, KeyError, ValueError) as error:
        raise _mismatch_error(task, server, "label, labels and probabilities") from error
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities)
        if task.kind == "many":
            logits -= np.log1p(-probabilities)
        elif abs(probabilities.sum(axis=1) - 1).max() > _TOLERANCE:
            raise _mismatch_error(task, server, "probabilities that sum to 1")
    for label, row in zip(predicted_labels, logits, strict=True):
        expected = task.label_kind.to_text(task.label_kind.prediction(row, labels).label)
        if label != expected:
            raise _mismatch_error(task, server, f"the label {expected!r} instead of {label!r}")
    return with_model_labels(task, labels, source=server), list(logits)


def _mismatch_error(task: ClassificationTask, server: str, expected: str) -> InputError:
    return InputError(
        f"the predictions of {server} are not those of a {task.name} model; expected {expected}"
    )
