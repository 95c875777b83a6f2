"""Defines what a task is: it reads files, encodes examples, and scores a model's predictions."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

import keras
import numpy as np

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.options import fixed
from bert_keras.storage import StrPath
from bert_keras.text.tokenizer import TextTokenizer

Outputs = Sequence  # of one array, or one dict of arrays, a row
Example = TypeVar("Example")
Rows = TypeVar("Rows", bound="Encoded")
Prediction = TypeVar("Prediction")


class Encoded(abc.ABC):
    """N encoded rows, of which a batch is made when it is needed.

    An example may have several rows, such as the windows of a long paragraph.
    """

    lengths: np.ndarray  # int64 [N]: the pieces of each row, special pieces included

    def __len__(self) -> int:
        return len(self.lengths)

    @abc.abstractmethod
    def batch(self, rows: np.ndarray) -> tuple:
        """(inputs, targets) or (inputs, targets, weights) of these rows, as `model.fit` takes them:
        arrays or dicts of arrays, padded to the longest of the rows. Targets of unlabelled examples
        are zeros."""


@dataclass(frozen=True, kw_only=True)
class Task(abc.ABC, Generic[Example, Rows, Prediction]):
    """A task: it reads examples, encodes them, names the model, scores and writes predictions.

    `labels` are the classes in the order of the logits: fixed by the task, or () until
    `with_labels_of` sets them from the training examples. `max_length` is the largest number of
    tokens of a row. A larger value of the score `metric` is better.
    """

    name: str = fixed()
    max_length: int
    labels: tuple[str, ...] = fixed(())

    model: ClassVar[str]  # the name of its class in bert_keras.architectures.ARCHITECTURES
    metric: ClassVar[str]  # the score that the best checkpoint is chosen by
    is_metric_percentage: ClassVar[bool] = False  # else `metric` is a fraction of 1
    problem_type: ClassVar[str] = ""  # what the labels of a classifier are, as a ModelCard has it
    input_names: ClassVar[tuple[str, ...]] = ()  # of the texts that the model reads
    prediction_file: ClassVar[str] = "predictions.tsv"
    freezes_encoder: ClassVar[bool] = False

    @abc.abstractmethod
    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the path of each split ("train", "dev", "test") of a data folder or a tfds:
        name.

        Raises:
            InputError: The folder, or its file for "train" or "dev", is missing.
        """

    @abc.abstractmethod
    def read(self, path: StrPath, *, split: str = "train") -> Sequence[Example]:
        """Returns the examples of a file. Those of "train" and "dev" must have labels.

        Raises:
            InputError: A line is invalid; the message names the file and the line.
        """

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example], tokenizer: TextTokenizer) -> Rows:
        """Returns the rows for the model."""

    @abc.abstractmethod
    def compile_arguments(self) -> dict:
        """Returns `loss`, `loss_weights`, `metrics`, `weighted_metrics` for `model.compile`."""

    @abc.abstractmethod
    def predictions(
        self, examples: Sequence[Example], encoded: Rows, outputs: Outputs
    ) -> Sequence[Prediction]:
        """Returns one prediction for each example from the outputs of the model for each row. The
        outputs are padded: ignore positions beyond the length of a row.
        """

    @abc.abstractmethod
    def check_labels(self, examples: Sequence[Example]) -> None:
        """Raises InputError where an example has no label to score against."""

    @abc.abstractmethod
    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """Returns the scores by name, in the units of the official scorer. Raises as
        `check_labels` does.
        """

    @abc.abstractmethod
    def write_predictions(
        self, path: StrPath, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> None:
        """Writes the file that the official scorer reads."""

    @abc.abstractmethod
    def read_predictions(self, path: StrPath, examples: Sequence[Example]) -> Sequence[Prediction]:
        """Reads such a file, as far as the score needs it.

        Raises:
            InputError: The file does not belong to these examples.
        """

    def with_labels_of(self, examples: Sequence[Example]) -> Self:
        """Returns the task with the labels of the training examples, if it has none of its own."""
        return self

    def check_encoder(self, config: BertConfig) -> None:
        """Raises InputError for an encoder that does not fit the settings of the task."""

    def baseline(self, train: Sequence[Example], dev: Sequence[Example]) -> dict[str, float]:
        """Returns the scores on `dev` of a prediction that reads no text, such as
        "majority_accuracy".
        """
        return {}

    def tuned(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Self:
        """Returns the task with settings that its dev predictions decide, such as a threshold."""
        return self

    def trained(self, model: keras.Model) -> keras.Model:
        """Returns the part of the task's model that is trained."""
        return model

    def prepared(self, encoded: Rows, model: keras.Model, *, folder: Path) -> Rows:
        """Returns the rows that the trained part reads, and stores them in `folder`."""
        return encoded

    def settings(self) -> dict[str, object]:
        """Returns the settings that the model metadata keeps for predictions."""
        settings = dataclasses.asdict(self)
        del settings["labels"]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in settings.items()
        }


def needs_labels(split: str) -> bool:
    """Whether each example of a split must have a label."""
    return split.startswith(("train", "dev"))


def nothing_to_score(place: str) -> InputError:
    """Of examples at `place` that are asked for a score and have no labels."""
    return InputError(f"{place} has no labels, so there is nothing to score; use predict")


def data_files(data: StrPath, *, names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The files of a data folder: of each split the first of its `names` that is there.

    Raises InputError where the folder is missing, or its "train" or "dev".
    """
    folder = Path(data)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; expected a folder with {names['train'][0]}")
    found = {
        split: str(folder / name)
        for split, several in names.items()
        for name in reversed(several)
        if (folder / name).is_file()
    }
    for split in ("train", "dev"):
        if split in names and split not in found:
            raise InputError(
                f"{folder} has no {' or '.join(names[split])}; it holds "
                f"{', '.join(sorted(p.name for p in folder.iterdir())[:10]) or 'nothing'}"
            )
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in the dtype of the logits."""
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)
