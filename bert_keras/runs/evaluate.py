"""Scores a fine-tuned model, or a file of predictions, on the examples of a task."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from bert_keras.errors import InputError
from bert_keras.models import load_model
from bert_keras.options import with_changes
from bert_keras.tasks.batches import Predictor
from bert_keras.tasks.catalog import named_task, task_of
from bert_keras.tasks.task import Task


@dataclass(frozen=True)
class Answers:
    """A task, examples of it and how each gets its prediction, which is made when first needed."""

    task: Task
    examples: Sequence
    predict: Callable[[], Sequence]

    @cached_property
    def predictions(self) -> Sequence:
        return self.predict()

    def scores(self) -> dict[str, float]:
        self.task.check_labels(self.examples)
        return self.task.score(self.examples, self.predictions)

    def write(self, path: str | os.PathLike) -> None:
        self.task.write_predictions(path, self.examples, self.predictions)


def answers_of_model(
    name: str,
    *,
    model: str | os.PathLike,
    data: str,
    split: str = "dev",
    changes: Iterable[str] = (),
    batch_size: int = 32,
) -> Answers:
    """What the model folder answers to the examples of `data`: those of "dev" are labelled, those
    of "test" need not be. `changes` are `FIELD=VALUE` of the task's settings.
    """
    loaded = load_model(model)
    card, tokenizer = loaded.card, loaded.tokenizer
    if card is None or tokenizer is None:
        raise InputError(f"{model} holds no vocabulary; put its vocab.txt or tokenizer.json there")
    task = task_of(card, name=name, source=model)
    (task,) = with_changes(task, changes=changes)
    dataclasses.replace(card, max_length=task.max_length)  # what does not fit is refused
    examples = task.read(data, split=split)

    def predict() -> Sequence:
        encoded = task.encode(examples, tokenizer)
        outputs, _ = Predictor(loaded)(encoded, batch_size=batch_size)
        return task.predictions(examples, encoded, outputs)

    return Answers(task, examples, predict)


def answers_of_file(
    name: str, *, predictions: str | os.PathLike, data: str, changes: Iterable[str] = ()
) -> Answers:
    """What a file of predictions, as `bert-keras predict` writes it, answers to labelled examples.

    Its labels are those of the examples where the task does not fix them.
    """
    (task,) = with_changes(named_task(name), changes=changes)
    examples = task.read(data, split="dev")
    task = task.with_labels_of(examples)
    return Answers(task, examples, partial(task.read_predictions, predictions, examples))
