"""Reads, encodes and predicts labels of three kinds: one of several, any of several, a number."""

import abc
import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import keras
import numpy as np

from bert_keras.errors import InputError
from bert_keras.tasks.task import softmax

Label = str | tuple[str, ...] | float
One = TypeVar("One", str, tuple[str, ...], float)

MOST_LISTED = 20  # labels in a message


class LabelPrediction(NamedTuple):
    """`probabilities`, float32 [num_labels], are () for a number and where a file does not say."""

    label: Label
    probabilities: Sequence[float] | np.ndarray = ()


class LabelKind(abc.ABC, Generic[One]):
    """How labels of one kind are read from a file, learned, predicted and scored."""

    problem_type: str = ""
    scores: tuple[str, ...]  # names in label_scores.SCORES; the first chooses the best checkpoint
    fewest_classes: int = 1  # in a training file

    @abc.abstractmethod
    def read(self, text: str, *, place: str) -> One:
        """Return the label that a file has at `place`, without the white space around it."""

    def written(self, label: One) -> str:
        """Return the text that `read` reads."""
        return str(label)

    def names(self, label: One) -> tuple[str, ...]:
        """Return the classes that a label consists of."""
        return ()

    @abc.abstractmethod
    def targets(self, labels: Sequence[One | None], classes: Sequence[str]) -> np.ndarray:
        """Return the targets of the loss: zeros where there is no label, or one unknown."""

    @abc.abstractmethod
    def compile_arguments(self) -> dict:
        """Return `loss` and `metrics` for `model.compile`."""

    @abc.abstractmethod
    def prediction(self, logits: np.ndarray, classes: Sequence[str]) -> LabelPrediction:
        """Return the prediction of an example from its logits [num_labels]."""

    def classes(self, labels: Sequence[One], *, file: str, column: str) -> tuple[str, ...]:
        """Return what the logits stand for, from the labels of the training file."""
        classes = sorted({name for label in labels for name in self.names(label)})
        if len(classes) < self.fewest_classes:
            raise InputError(
                f"{file} has {len(classes)} different labels in the column {column!r}; expected at "
                f"least {self.fewest_classes}"
            )
        return tuple(classes)

    def check(self, label: One, classes: Sequence[str], *, place: str) -> None:
        """Raise InputError for a label that no logit stands for."""
        for name in self.names(label):
            if name not in classes:
                raise InputError(
                    f"{place} has the label {name!r}; known: {listed_labels(classes)}; add rows of "
                    "it to the training file, or leave these out"
                )


class OneLabel(LabelKind[str]):
    """One of several labels."""

    scores = ("accuracy", "macro_f1")
    fewest_classes = 2

    def read(self, text, *, place):
        label = text.strip()
        if not label:
            raise InputError(f"{place} has an empty label; expected one of the classes")
        return _writable(label, place)

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
    """Labels with commas between; an empty text is no label. One of at least 0.5 is predicted."""

    problem_type = "multi_label_classification"
    scores = ("micro_f1_of_labels", "macro_f1_of_labels", "subset_accuracy")

    def read(self, text, *, place):
        labels = tuple(label.strip() for label in text.split(",")) if text.strip() else ()
        if "" in labels or len(set(labels)) < len(labels):
            raise InputError(f"{place} has the labels {text!r}; expected each once, none empty")
        return tuple(_writable(label, place) for label in labels)

    def written(self, label):
        return ",".join(label)

    def names(self, label):
        return label

    def targets(self, labels, classes):
        rows = [[float(each in (label or ())) for each in classes] for label in labels]
        return np.array(rows, np.float32)

    def compile_arguments(self):
        return {
            "loss": keras.losses.BinaryCrossentropy(from_logits=True),
            "metrics": [keras.metrics.BinaryAccuracy(threshold=0.0)],  # of logits
        }

    def prediction(self, logits, classes):
        probabilities = 0.5 * (1.0 + np.tanh(0.5 * logits))
        chosen = zip(classes, logits, strict=True)
        return LabelPrediction(tuple(label for label, logit in chosen if logit >= 0), probabilities)


class Number(LabelKind[float]):
    """A number, to be predicted by regression."""

    problem_type = "regression"
    scores = ("pearson_and_spearman", "pearson", "spearman", "mean_squared_error")

    def read(self, text, *, place):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{place} has {text!r} for a number; expected such as 2.5")
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
    """A number as GLUE's server reads that of STS-B: within 0 and 5, with three decimals."""

    def written(self, label):
        return f"{label:.3f}"

    def prediction(self, logits, classes):
        return LabelPrediction(round(min(max(0.0, float(logits[0])), 5.0), 3))


LABEL_KINDS: dict[str, LabelKind] = {"one": OneLabel(), "many": ManyLabels(), "number": Number()}


def listed_labels(labels: Sequence[str]) -> str:
    """For a message: the first of them, and how many more there are."""
    more = len(labels) - MOST_LISTED
    return ", ".join(labels[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _writable(label: str, place: str) -> str:
    if "\t" in label or len(label.splitlines()) > 1:
        raise InputError(
            f"{place} has the label {label!r}, which holds a tab or line end; give it another name"
        )
    return label
