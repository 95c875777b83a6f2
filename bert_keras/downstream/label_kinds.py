"""Reads, encodes and predicts labels of three kinds: one class, several classes, a number."""

import abc
import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import keras
import numpy as np

from bert_keras.downstream.task import softmax
from bert_keras.errors import InputError, counted

Label = str | tuple[str, ...] | float
AnyLabel = TypeVar("AnyLabel", str, tuple[str, ...], float)

MAX_LISTED = 20  # maximum number of labels that a message lists


class LabelPrediction(NamedTuple):
    """The predicted label of an example."""

    label: Label
    # float32 [num_labels]; () for a number, and for a prediction that was read from a file.
    probabilities: Sequence[float] | np.ndarray = ()


class LabelKind(abc.ABC, Generic[AnyLabel]):
    """How labels of one kind are read from a file, learned, predicted and scored."""

    problem_type: str = ""  # as in the model metadata; "" for one class
    scores: tuple[str, ...]  # names in label_scores.SCORES; the first chooses the best checkpoint
    min_classes: int = 1  # minimum number of classes in a training file

    @abc.abstractmethod
    def read(self, text: str, *, location: str) -> AnyLabel:
        """Returns the label that a file has at `location`, without surrounding white space.

        Raises:
            InputError: The text is no label of this kind; the message names `location`.
        """

    def to_text(self, label: AnyLabel) -> str:
        """Returns the text of a label, which `read` can read."""
        return str(label)

    def names(self, label: AnyLabel) -> tuple[str, ...]:
        """Returns the classes that a label consists of."""
        return ()

    @abc.abstractmethod
    def targets(self, labels: Sequence[AnyLabel | None], classes: Sequence[str]) -> np.ndarray:
        """Returns the targets of the loss; a missing or unknown label gives zeros.

        The array is int32 [N] for one class, else float32 [N, num_labels].
        """

    @abc.abstractmethod
    def compile_arguments(self) -> dict:
        """Returns `loss` and `metrics` for `model.compile`."""

    @abc.abstractmethod
    def prediction(self, logits: np.ndarray, classes: Sequence[str]) -> LabelPrediction:
        """Returns the prediction of an example from its logits, float32 [num_labels]."""

    def classes(self, labels: Sequence[AnyLabel], *, file: str, column: str) -> tuple[str, ...]:
        """Returns the names of the logits: the sorted classes of the training file.

        For a number, the only name is that of the column.

        Args:
            labels: The labels of the training file.
            file: Its path, for error messages.
            column: The column of the labels.

        Raises:
            InputError: There are fewer than `min_classes` classes.
        """
        classes = sorted({name for label in labels for name in self.names(label)})
        if len(classes) < self.min_classes:
            raise InputError(
                f"{file} has {counted(len(classes), 'label')} in the column {column!r}; expected "
                f"at least {self.min_classes}"
            )
        return tuple(classes)

    def check(self, label: AnyLabel, classes: Sequence[str], *, location: str) -> None:
        """Raises InputError for a label with a class that is not in `classes`."""
        for name in self.names(label):
            if name not in classes:
                raise InputError(
                    f"{location} has the label {name!r}; known: {listed_labels(classes)}; correct "
                    "the label or remove the row"
                )


class OneLabel(LabelKind[str]):
    """Exactly one of several classes."""

    scores = ("accuracy", "macro_f1")
    min_classes = 2

    def read(self, text, *, location):
        label = text.strip()
        if not label:
            raise InputError(f"{location} has an empty label; expected one of the classes")
        return _writable(label, location)

    def names(self, label):
        return (label,)

    def targets(self, labels, classes):
        ids: dict[str | None, int] = {label: index for index, label in enumerate(classes)}
        return np.array([ids.get(label, 0) for label in labels], np.int32)

    def compile_arguments(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {"loss": loss, "metrics": ["accuracy"]}

    def prediction(self, logits, classes):
        return LabelPrediction(classes[int(logits.argmax())], softmax(logits))


class ManyLabels(LabelKind[tuple[str, ...]]):
    """Any number of classes, separated by commas in a file; an empty text means no class.

    Each class with a probability of at least 0.5 is predicted.
    """

    problem_type = "multi_label_classification"
    scores = ("micro_f1_of_labels", "macro_f1_of_labels", "subset_accuracy")

    def read(self, text, *, location):
        labels = tuple(label.strip() for label in text.split(",")) if text.strip() else ()
        if "" in labels or len(set(labels)) < len(labels):
            raise InputError(f"{location} has the labels {text!r}; expected each once, none empty")
        return tuple(_writable(label, location) for label in labels)

    def to_text(self, label):
        return ",".join(label)

    def names(self, label):
        return label

    def targets(self, labels, classes):
        rows = [[float(each in (label or ())) for each in classes] for label in labels]
        return np.array(rows, np.float32)

    def compile_arguments(self):
        return {
            "loss": keras.losses.BinaryCrossentropy(from_logits=True),
            # A logit of 0 is a probability of 0.5.
            "metrics": [keras.metrics.BinaryAccuracy(threshold=0.0)],
        }

    def prediction(self, logits, classes):
        probabilities = 0.5 * (1.0 + np.tanh(0.5 * logits))
        pairs = zip(classes, logits, strict=True)
        return LabelPrediction(tuple(label for label, logit in pairs if logit >= 0), probabilities)


class Number(LabelKind[float]):
    """A number, which is predicted by regression."""

    problem_type = "regression"
    scores = ("pearson_and_spearman", "pearson", "spearman", "mean_squared_error")

    def read(self, text, *, location):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{location} has the label {text!r}; expected a number such as 2.5")
        return value

    def classes(self, labels, *, file, column):
        return (column,)

    def targets(self, labels, classes):
        return np.array([[0.0 if label is None else label] for label in labels], np.float32)

    def compile_arguments(self):
        return {"loss": keras.losses.MeanSquaredError(), "metrics": ["mae"]}

    def prediction(self, logits, classes):
        return LabelPrediction(float(logits[0]))


class Similarity(Number):
    """A similarity score of STS-B, from 0 to 5 with three decimals, as GLUE's server expects."""

    def to_text(self, label):
        return f"{label:.3f}"

    def prediction(self, logits, classes):
        return LabelPrediction(round(min(max(0.0, float(logits[0])), 5.0), 3))


LABEL_KINDS: dict[str, LabelKind] = {"one": OneLabel(), "many": ManyLabels(), "number": Number()}


def listed_labels(labels: Sequence[str]) -> str:
    """Returns the first labels and the number of further ones, for a message."""
    more = len(labels) - MAX_LISTED
    return ", ".join(labels[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _writable(label: str, location: str) -> str:
    if "\t" in label or len(label.splitlines()) > 1:
        raise InputError(
            f"{location} has the label {label!r}, which contains a tab or a line end; rename it"
        )
    return label
