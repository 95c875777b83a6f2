"""Defines the interface of a task: reading files, encoding examples, scoring predictions."""

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from bert_keras.config import BertConfig, EmbeddingConfig, ModelMetadata
from bert_keras.data.encoded import Encoded
from bert_keras.downstream.table import is_tfds, tfds_files
from bert_keras.errors import InputError, check_name
from bert_keras.files import StrPath, check_exists
from bert_keras.kinds.classifier import SINGLE_LABEL
from bert_keras.kinds.known import KINDS
from bert_keras.text.tokenizer import TextTokenizer

if TYPE_CHECKING:  # a task checks its data before Keras is imported
    import keras

    from bert_keras.reports.evaluation import Findings

Outputs = Sequence  # the outputs of a model: an array, or a dict of arrays, for each row
Scores = dict[str, float]
FileNames = Mapping[str, Sequence[str]]  # split -> its possible file names
Example = TypeVar("Example")
EncodedExamples = TypeVar("EncodedExamples", bound="Encoded")
Prediction = TypeVar("Prediction")


def fixed(default: Any = MISSING) -> Any:
    """Returns a field that users cannot change, neither by an option nor by FIELD=VALUE."""
    return field(default=default, metadata={"is_fixed": True})


@dataclass(frozen=True, kw_only=True)
class Task(abc.ABC, Generic[Example, EncodedExamples, Prediction]):
    """Reads and encodes examples for a class of models, and scores and writes predictions.

    The fields are the settings of the task. By default, the data are tables with a class per row.
    """

    name: str = fixed()
    max_length: int = field(metadata={"help": "maximum number of tokens of a row"})
    # The classes in the order of the logits. Either the task fixes them, or they are () until
    # `with_labels_of` sets them from the training examples.
    labels: tuple[str, ...] = fixed(())

    model: ClassVar[str]  # the name of the model class
    metric: ClassVar[str]  # the score that chooses the best checkpoint; larger is better
    problem_type: ClassVar[str] = ""  # the problem type of a classifier, as in the metadata
    input_names: ClassVar[tuple[str, ...]] = ()  # the names of the texts that the model reads
    folder: ClassVar[str] = ""  # the task's folder in the folder of a benchmark
    file_names: ClassVar[FileNames] = {
        split: (f"{split}.tsv", f"{split}.csv", f"{split}.jsonl")
        for split in ("train", "dev", "test")
    }
    label_field: ClassVar[str] = "label"  # field of an example; None or () if it has no label
    prediction_file: ClassVar[str] = "predictions.tsv"  # the default name
    # Whether the task also scores models that were fine-tuned on another task with the same model.
    scores_other_tasks: ClassVar[bool] = False
    freezes_encoder: ClassVar[bool] = False  # whether only the layers above the encoder are trained

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the path of each split: "train", "dev", and others that exist, such as "test".

        `data` is the folder of the task, a folder that contains it, or a TFDS builder `tfds:NAME`.
        """
        if is_tfds(data):
            return tfds_files(data)
        folder = Path(data)
        if self.folder and (folder / self.folder).is_dir():
            folder /= self.folder
        check_exists(folder, expected="a folder of data files")
        paths = {
            split: str(folder / name)
            for split, names in self.file_names.items()
            for name in reversed(names)
            if (folder / name).is_file()
        }
        if missing := [split for split in ("train", "dev") if split not in paths]:
            existing = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "no files"
            names = " or ".join(self.file_names[missing[0]])
            raise InputError(f"{folder} has no {names}; it contains {existing}")
        return paths

    @abc.abstractmethod
    def read(self, path: StrPath, *, split: str = "train") -> Sequence[Example]:
        """Returns the examples of a file; in "train" and "dev", each must have a label."""

    def check_labels(self, examples: Sequence[Example]) -> None:
        """Raises InputError if an example has no label, so that it cannot be scored."""
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
        """Returns the rows to predict, by default the same as `encode`."""
        return self.encode(examples, tokenizer)

    def compile_arguments(self) -> dict[str, Any]:
        """Returns `loss`, `loss_weights`, `metrics`, `weighted_metrics` for `model.compile`."""
        return SINGLE_LABEL.compile_arguments()

    @abc.abstractmethod
    def predictions(
        self, examples: Sequence[Example], encoded: EncodedExamples, outputs: Outputs
    ) -> Sequence[Prediction]:
        """Returns one prediction for each example; `outputs` may be padded at the end of a row."""

    @abc.abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scores:
        """Returns the scores by name, as fractions of 1; the examples have labels."""

    def baseline(self, train: Sequence[Example], dev: Sequence[Example]) -> Scores:
        """Returns the scores on `dev` of a trivial baseline, such as "majority_accuracy"."""
        return {}

    def tuned(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Self:
        """Returns the task with settings found from its dev predictions, such as a threshold."""
        return self

    def findings(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> "Findings":
        """Returns the tables of an evaluation page."""
        return KINDS[self.model].findings(self, examples, predictions)

    @abc.abstractmethod
    def write_predictions(
        self, path: StrPath, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> None:
        """Writes the file that the official scorer reads, or a table of numbered rows."""

    def check_encoder(self, config: BertConfig) -> None:
        """Raises InputError for an encoder that does not fit the settings of the task."""
        if self.max_length > (limit := config.max_positions):
            raise InputError(f"max_length is {self.max_length}; the encoder reads {limit} tokens")

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig | None:
        """Returns how a model that starts from `source` computes embeddings, or None."""
        return None

    def trained(self, model: "keras.Model") -> "keras.Model":
        """Returns the part of the task's model whose weights are trained, by default all of it."""
        return model

    def prepared(
        self, encoded: EncodedExamples, model: "keras.Model", *, folder: Path
    ) -> EncodedExamples:
        """Returns the rows that the trained part reads, and stores them in `folder`."""
        return encoded

    def settings(self) -> dict[str, object]:
        """Returns the settings that the model metadata stores for later predictions."""
        values = {name: v for name, v in dataclasses.asdict(self).items() if name != "labels"}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def needs_labels(split: str) -> bool:
    """Returns whether each example of a split must have a label."""
    return split.startswith(("train", "dev"))


def examples_file(task: Task, data: StrPath, *, split: str) -> str:
    """Returns the file of a split in a folder or in `tfds:NAME`; if `data` is a file, `data`."""
    data = os.fspath(data)
    if not (os.path.isdir(data) or is_tfds(data)):
        return data
    check_name(split, files := task.files(data), what=f"split of {data}")
    return files[split]
