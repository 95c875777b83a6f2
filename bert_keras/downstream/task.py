"""Defines the interface of a task: reading files, encoding examples, scoring predictions."""

import abc
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import keras
import numpy as np

from bert_keras.config import BertConfig, EmbeddingConfig, ModelMetadata
from bert_keras.data.buckets import length_grouped_batches
from bert_keras.downstream.tfds import is_tfds, tfds_files
from bert_keras.errors import InputError, check, counted
from bert_keras.files import StrPath, text_lines, write_text
from bert_keras.text.tokenizer import TextTokenizer

Outputs = Sequence  # the outputs of a model: an array, or a dict of arrays, for each row
Scores = dict[str, float]
FileNames = Mapping[str, Sequence[str]]  # the possible file names of each split
Example = TypeVar("Example")
EncodedExamples = TypeVar("EncodedExamples", bound="Encoded")
Prediction = TypeVar("Prediction")


def fixed(default: Any = MISSING) -> Any:
    """Declares a field that no option and no FIELD=VALUE can set."""
    return field(default=default, metadata={"is_fixed": True})


class Encoded(abc.ABC):
    """N encoded rows; `batch` builds padded arrays from some of them.

    An example may have several rows, such as the windows of a long paragraph.
    """

    lengths: np.ndarray  # int64 [N], the tokens of each row, special tokens included
    # Whether axis 1 of the inputs [B, G, T] and of the targets [B, N] has the same size in every
    # batch.
    has_fixed_groups: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.lengths)

    @abc.abstractmethod
    def batch(self, rows: np.ndarray) -> tuple:
        """Returns (inputs, targets) or (inputs, targets, weights) of some rows for `model.fit`.

        Each is an array or a dict of arrays, padded to the longest of the rows. Targets of examples
        without a label are zeros. Rows that are never trained may have only (inputs,).

        Args:
            rows: int [B], the indices of the rows.
        """

    def shuffled_batches(self, *, batch_size: int, seed: int) -> Iterator[np.ndarray]:
        """Yields the rows of training batches without end; see `length_grouped_batches`."""
        return length_grouped_batches(self.lengths, batch_size=batch_size, seed=seed)


@dataclass(frozen=True, kw_only=True)
class Task(abc.ABC, Generic[Example, EncodedExamples, Prediction]):
    """A task: it reads examples, encodes them, names the model, scores and writes predictions.

    The fields are the settings of the task. By default, the data are tables, the model learns one
    class, and the prediction file is a table with a row for each example.
    """

    name: str = fixed()
    max_length: int  # maximum number of tokens of a row, special tokens included
    # The classes in the order of the logits. Either the task fixes them, or they are () until
    # `with_labels_of` sets them from the training examples.
    labels: tuple[str, ...] = fixed(())

    model: ClassVar[str]  # the name of its model in bert_keras.models.MODELS
    metric: ClassVar[str]  # the score that chooses the best checkpoint; larger is better
    is_metric_percentage: ClassVar[bool] = False  # otherwise `metric` is a fraction of 1
    problem_type: ClassVar[str] = ""  # the kind of a classifier's labels, as in the model metadata
    input_names: ClassVar[tuple[str, ...]] = ()  # the names of the texts that the model reads
    folder: ClassVar[str] = ""  # the task's folder in the folder of a benchmark
    file_names: ClassVar[FileNames] = {
        split: (f"{split}.tsv", f"{split}.csv", f"{split}.jsonl")
        for split in ("train", "dev", "test")
    }
    label_field: ClassVar[str] = "label"  # of an example: None or () if the example has no label
    prediction_file: ClassVar[str] = "predictions.tsv"  # default name
    prediction_header: ClassVar[tuple[str, ...]] = ("index", "prediction")
    prediction_separator: ClassVar[str] = "\t"
    # Whether the task also scores models that were fine-tuned on another task with the same model.
    scores_other_tasks: ClassVar[bool] = False
    freezes_encoder: ClassVar[bool] = False  # whether only the layers above the encoder are trained

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the path of each split: "train", "dev", and others that exist, such as "test".

        Args:
            data: The folder of the task, a folder that contains it, or a TFDS builder as
                `tfds:NAME`.

        Raises:
            InputError: The folder, or its file for "train" or "dev", is missing.
        """
        if is_tfds(data):
            return tfds_files(data)
        folder = Path(data)
        if self.folder and (folder / self.folder).is_dir():
            folder /= self.folder
        check(folder.is_dir(), f"{folder} is no folder; expected the folder of the data files")
        paths = {
            split: str(folder / name)
            for split, names in self.file_names.items()
            for name in reversed(names)
            if (folder / name).is_file()
        }
        for split in ("train", "dev"):
            found = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "no files"
            names = " or ".join(self.file_names[split])
            check(split in paths, f"{folder} has no {names}; it contains {found}")
        return paths

    @abc.abstractmethod
    def read(self, path: StrPath, *, split: str = "train") -> Sequence[Example]:
        """Returns the examples of a file. Those of "train" and "dev" must have labels.

        Raises:
            InputError: A line is invalid; the message names the file and the line.
        """

    def check_labels(self, examples: Sequence[Example]) -> None:
        """Raises InputError if an example has no label to score against."""
        for each in examples:
            if getattr(each, self.label_field) in (None, ()):
                location = getattr(each, "location", "an example")
                raise InputError(f"{location} has no label, so nothing can be scored; use predict")

    def with_labels_of(self, examples: Sequence[Example]) -> Self:
        """Returns the task with the labels of the training examples, if it has no labels yet."""
        return self

    @abc.abstractmethod
    def encode(self, examples: Sequence[Example], tokenizer: TextTokenizer) -> EncodedExamples:
        """Returns the rows for the model."""

    def encode_to_score(
        self, examples: Sequence[Example], tokenizer: TextTokenizer
    ) -> EncodedExamples:
        """Returns the rows from whose outputs `predictions` are computed.

        By default these are the rows of `encode`, which have a loss.
        """
        return self.encode(examples, tokenizer)

    def compile_arguments(self) -> dict[str, Any]:
        """Returns `loss`, `loss_weights`, `metrics`, `weighted_metrics` for `model.compile`."""
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {"loss": loss, "metrics": ["accuracy"]}

    @abc.abstractmethod
    def predictions(
        self, examples: Sequence[Example], encoded: EncodedExamples, outputs: Outputs
    ) -> Sequence[Prediction]:
        """Returns one prediction for each example.

        Args:
            examples: The examples.
            encoded: The rows of the examples, as `encode_to_score` returns them.
            outputs: The outputs of the model for each row. Their time axes are padded; values after
                the end of a row have no meaning.
        """

    @abc.abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scores:
        """Returns the scores by name, in the units of the official scorer.

        Args:
            examples: Examples with labels; see `check_labels`.
            predictions: A prediction for each example.
        """

    def baseline(self, train: Sequence[Example], dev: Sequence[Example]) -> Scores:
        """Returns the scores on `dev` of a trivial baseline, such as "majority_accuracy"."""
        return {}

    def tuned(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Self:
        """Returns the task with settings that its dev predictions decide, such as a threshold."""
        return self

    def write_predictions(
        self, path: StrPath, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> None:
        """Writes the file that the official scorer reads; by default a table of numbered rows."""
        rows = [[str(n), *self.prediction_row(each)] for n, each in enumerate(predictions)]
        header = (*self.prediction_header, *self.more_columns(predictions[0]))
        lines = map(self.prediction_separator.join, (header, *rows))
        write_text(path, "".join(f"{line}\n" for line in lines))

    def read_predictions(self, path: StrPath, examples: Sequence[Example]) -> Sequence[Prediction]:
        """Reads a file that `write_predictions` writes, as far as `score` needs it.

        Raises:
            InputError: The file does not belong to these examples.
        """
        predictions, header = [], list(self.prediction_header)
        for number, line in enumerate(text_lines(path)):
            location, fields = f"{path}, line {number + 1}", line.split(self.prediction_separator)
            expected = [str(number - 1)] if number else header
            if fields[: len(expected)] != expected or len(fields) < len(header):
                expected = self.prediction_separator.join(expected)
                raise InputError(f"{location} is {line[:60]!r}; expected {expected!r} at its start")
            if number:
                predictions.append(self.prediction_of(fields[1], location=location))
        found = f"{path} has {counted(len(predictions), 'prediction')}"
        check(len(predictions) == len(examples), f"{found} for {len(examples)} examples")
        return predictions

    def prediction_row(self, prediction: Prediction) -> Sequence[str]:
        """Returns the columns of a prediction in a table after the number of its row."""
        raise NotImplementedError

    def more_columns(self, prediction: Prediction) -> Sequence[str]:
        """Returns the names of the columns after those of `prediction_header`."""
        return ()

    def prediction_of(self, text: str, *, location: str) -> Prediction:
        """Returns the prediction of the first column that `prediction_row` returned."""
        raise NotImplementedError

    def check_encoder(self, config: BertConfig) -> None:
        """Raises InputError for an encoder that does not fit the settings of the task."""

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig | None:
        """Returns how the model computes embeddings; None if it computes none.

        Args:
            source: The metadata of the checkpoint from which the model starts.
        """
        return None

    def trained(self, model: keras.Model) -> keras.Model:
        """Returns the part of the task's model that is trained."""
        return model

    def prepared(
        self, encoded: EncodedExamples, model: keras.Model, *, folder: Path
    ) -> EncodedExamples:
        """Returns the rows that the trained part reads, and stores them in `folder`."""
        return encoded

    def settings(self) -> dict[str, object]:
        """Returns the settings that the model metadata stores; later predictions need the same."""
        settings = dataclasses.asdict(self)
        del settings["labels"]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in settings.items()
        }


def needs_labels(split: str) -> bool:
    """Returns whether each example of a split must have a label."""
    return split.startswith(("train", "dev"))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, in the dtype of the logits."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def examples_file(task: Task, data: StrPath, *, split: str) -> str:
    """Returns the file of a split of a folder or of `tfds:NAME`; a file is returned as it is.

    Raises:
        InputError: The data has no such split.
    """
    data = os.fspath(data)
    if not (os.path.isdir(data) or is_tfds(data)):
        return data
    files = task.files(data)
    check(split in files, f"{data} has no split {split!r}; it has {', '.join(files)}")
    return files[split]
