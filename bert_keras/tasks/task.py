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
    """A named task with its settings, as its fields say. `labels` are the classes in the order of
    the logits: fixed by the task, or () until `with_labels_of` the training examples.

    `max_length` counts pieces of a row. Scores are such that more is better in `metric`.
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
        """Where the splits of a data folder (or of a tfds: name) are: "train", "dev" and where
        there are such others, as "test", to path or place. Raises InputError that names what is
        missing."""

    @abc.abstractmethod
    def read(self, path: StrPath, *, split: str = "train") -> Sequence[Example]:
        """The examples of a file, with the labels that it has. Those of "train" and "dev" must be
        labelled, in other splits labels may be absent. Raises InputError with file and line."""

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example], tokenizer: TextTokenizer) -> Rows:
        """Rows for the model."""

    @abc.abstractmethod
    def compile_arguments(self) -> dict:
        """`loss`, `loss_weights`, `metrics`, `weighted_metrics` for `model.compile`."""

    @abc.abstractmethod
    def predictions(
        self, examples: Sequence[Example], encoded: Rows, outputs: Outputs
    ) -> Sequence[Prediction]:
        """One prediction for each example of what the model put out for each row. Time axes are
        padded: what lies beyond a row's length means nothing."""

    @abc.abstractmethod
    def check_labels(self, examples: Sequence[Example]) -> None:
        """Raises InputError where an example has no label to score against."""

    @abc.abstractmethod
    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """By name, in the units of the official scorer. Raises as `check_labels` does."""

    @abc.abstractmethod
    def write_predictions(
        self, path: StrPath, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> None:
        """The file that the official scorer reads."""

    @abc.abstractmethod
    def read_predictions(self, path: StrPath, examples: Sequence[Example]) -> Sequence[Prediction]:
        """As `predictions` gave them, as far as the score needs. Raises InputError where the file
        is not about these examples."""

    def with_labels_of(self, examples: Sequence[Example]) -> Self:
        """The task as the training examples settle it; itself where it is settled already."""
        return self

    def check_encoder(self, config: BertConfig) -> None:
        """Raises InputError for an encoder that the task's settings do not go with."""

    def baseline(self, train: Sequence[Example], dev: Sequence[Example]) -> dict[str, float]:
        """Scores on `dev` of an answer that reads no text, named "majority_..." and the like."""
        return {}

    def tuned(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Self:
        """The task with what its predictions on dev settle, such as a threshold."""
        return self

    def trained(self, model: keras.Model) -> keras.Model:
        """The part of the task's model that is trained."""
        return model

    def prepared(self, encoded: Rows, model: keras.Model, *, folder: Path) -> Rows:
        """What the trained part reads, for rows that the whole model reads; kept in `folder`."""
        return encoded

    def settings(self) -> dict[str, object]:
        """For the model card: what must be the same whenever this model is asked."""
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
