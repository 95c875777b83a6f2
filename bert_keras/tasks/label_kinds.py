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
    """How labels of one kind are read from a file, learnt, predicted and scored."""

    problem_type: str = ""
    scores: tuple[str, ...]  # names in label_scores.SCORES; the first chooses the best checkpoint

    @abc.abstractmethod
    def read(self, text: str, *, place: str) -> One:
        """The label that a file has at `place`, without the white space around it."""

    @abc.abstractmethod
    def written(self, label: One) -> str:
        """As `read` reads it."""

    @abc.abstractmethod
    def classes(self, labels: Sequence[One], *, file: str, column: str) -> tuple[str, ...]:
        """What the logits stand for, settled by these labels, which stand in `file`."""

    @abc.abstractmethod
    def check(self, label: One, classes: Sequence[str], *, place: str) -> None:
        """Raises InputError for a label that no logit stands for."""

    @abc.abstractmethod
    def targets(self, labels: Sequence[One | None], classes: Sequence[str]) -> np.ndarray:
        """For the loss; zeros where there is no label, or one unknown."""

    @abc.abstractmethod
    def compile_arguments(self) -> dict: ...

    @abc.abstractmethod
    def prediction(self, logits: np.ndarray, classes: Sequence[str]) -> LabelPrediction: ...


class OneLabel(LabelKind[str]):
    """One of several labels."""

    scores = ("accuracy", "macro_f1")

    def read(self, text, *, place):
        label = text.strip()
        if not label:
            raise InputError(f"{place} has an empty label; expected one of the classes")
        return _writable(label, place)

    def written(self, label):
        return label

    def classes(self, labels, *, file, column):
        classes = sorted(set(labels))
        if len(classes) < 2:
            raise InputError(
                f"{file} holds one label only in the column {column!r}, {classes[0]!r}; expected "
                "at least two"
            )
        return tuple(classes)

    def check(self, label, classes, *, place):
        if label not in classes:
            raise _unknown(label, classes, place)

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

    def classes(self, labels, *, file, column):
        classes = tuple(sorted({label for several in labels for label in several}))
        if not classes:
            raise InputError(
                f"{file} holds no label in the column {column!r}; expected at least one"
            )
        return classes

    def check(self, label, classes, *, place):
        for each in label:
            if each not in classes:
                raise _unknown(each, classes, place)

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

    def written(self, label):
        return repr(label)

    def classes(self, labels, *, file, column):
        return (column,)

    def check(self, label, classes, *, place):
        pass

    def targets(self, labels, classes):
        return np.array([[0.0 if label is None else label] for label in labels], np.float32)

    def compile_arguments(self):
        return {"loss": keras.losses.MeanSquaredError(), "metrics": ["mae"]}

    def prediction(self, logits, classes):
        return LabelPrediction(float(logits[0]))


LABEL_KINDS: dict[str, LabelKind] = {
    "one": OneLabel(),
    "many": ManyLabels(),
    "number": Number(),
}


def listed_labels(labels: Sequence[str]) -> str:
    """For a message: the first of them, and how many more there are."""
    more = len(labels) - MOST_LISTED
    return ", ".join(labels[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _unknown(label: str, classes: Sequence[str], place: str) -> InputError:
    return InputError(
        f"{place} has the label {label!r}; known: {listed_labels(classes)}; add rows of it to the "
        "training file, or leave these out"
    )


def _writable(label: str, place: str) -> str:
    if "\t" in label or len(label.splitlines()) > 1:
        raise InputError(
            f"{place} has the label {label!r}, which holds a tab or line end; give it another name"
        )
    return label
