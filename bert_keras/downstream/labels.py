"""Reads, learns, predicts and scores labels: one class, several classes, or a number."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bert_keras.downstream.task import softmax
from bert_keras.errors import InputError, check, listed, quoted

Label = str | tuple[str, ...] | float

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class LabelPrediction(NamedTuple):
    """The predicted label of an example."""

    label: Label
    probabilities: Sequence[float] | np.ndarray = ()  # float32 [num_labels]; () for a number


class OneLabel:
    """Exactly one of several classes, in the order of the logits; other kinds of labels differ."""

    problem_type = ""  # as in the model metadata
    scores: tuple[str, ...] = ("accuracy", "macro_f1")  # the first chooses the best checkpoint

    def read(self, text: str, *, location: str) -> Any:
        """Returns the label of a text; raises InputError if it is no label of this kind."""
        check(text.strip(), f"{location} has an empty label; expected the name of a class")
        return text.strip()

    def to_text(self, label: Any) -> str:
        """Returns the text of a label, which `read` can read."""
        return str(label)

    def names(self, label: Any) -> tuple[str, ...]:
        """Returns the classes that a label consists of."""
        return (label,)

    def classes(self, labels: Sequence, *, column: str, file: str) -> tuple[str, ...]:
        """Returns the sorted classes of a training file, or the name of a column of numbers."""
        names = [name for label in labels for name in self.names(label)]
        classes = sorted({*names})
        if all(map(_NUMBER.fullmatch, classes)):
            classes.sort(key=float)
        found = f"only the label {classes[0]!r}" if classes else "no label"
        expected = f"in the column {column!r}; expected at least 2 labels"
        check(len(classes) >= 2, f"{file} has {found} {expected}")
        found = f"{file} has {len(classes):,} labels in {len(labels):,} rows"
        remedy = "name the column of labels: label_column='NAME' (after --set)"
        are_labels = len(names) < 20 or len(classes) < 0.9 * len(names)
        check(are_labels, f"{found} of the column {column!r}; {remedy}")
        return tuple(classes)

    def check(self, label: Any, classes: Sequence[str], *, location: str) -> None:
        """Raises InputError for a label with a class that is not in `classes`."""
        for name in self.names(label):
            if name not in classes:
                known = listed([*classes], most=20, mark=", ")
                raise InputError(f"{location} has the unknown label {quoted(name)}; known: {known}")

    def targets(self, labels: Sequence, classes: Sequence[str]) -> np.ndarray:
        """Returns the targets of the loss, int32 [N] or float32 [N, num_labels]; 0 without one."""
        ids: dict[str | None, int] = {label: index for index, label in enumerate(classes)}
        return np.array([ids.get(label, 0) for label in labels], np.int32)

    def compile_arguments(self) -> dict[str, Any]:
        """Returns `loss` and `metrics` for `model.compile`."""
        import keras

        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {"loss": loss, "metrics": ["accuracy"]}

    def prediction(self, logits: np.ndarray, classes: Sequence[str]) -> LabelPrediction:
        """Returns the prediction of an example from its logits, float32 [num_labels]."""
        return LabelPrediction(classes[int(logits.argmax())], softmax(logits))


class ManyLabels(OneLabel):
    """Any number of classes, separated by commas in a file; an empty text means no class.

    Each class with a probability of at least 0.5 is predicted.
    """

    problem_type = "multi_label_classification"
    scores = ("micro_f1_of_labels", "macro_f1_of_labels", "subset_accuracy")

    def read(self, text, *, location):
        labels = tuple(label.strip() for label in text.split(",")) if text.strip() else ()
        if "" in labels or len(set(labels)) < len(labels):
            raise InputError(f"{location} has the labels {text!r}; expected each once, none empty")
        return labels

    def to_text(self, label):
        return ",".join(label)

    def names(self, label):
        return label

    def targets(self, labels, classes):
        rows = [[float(each in (label or ())) for each in classes] for label in labels]
        return np.array(rows, np.float32)

    def compile_arguments(self):
        import keras

        # A logit of 0 is a probability of 0.5.
        metrics = [keras.metrics.BinaryAccuracy(threshold=0.0)]
        return {"loss": keras.losses.BinaryCrossentropy(from_logits=True), "metrics": metrics}

    def prediction(self, logits, classes):
        probabilities = 0.5 * (1.0 + np.tanh(0.5 * logits))
        pairs = zip(classes, logits, strict=True)
        return LabelPrediction(tuple(label for label, logit in pairs if logit >= 0), probabilities)


class Number(OneLabel):
    """A number, which is predicted by regression."""

    problem_type = "regression"
    scores = ("pearson_and_spearman", "pearson", "spearman", "mean_squared_error")

    def read(self, text, *, location):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        expected = "expected a number such as 2.5; names need the task classification"
        check(math.isfinite(value), f"{location} has {quoted(text)}; {expected}")
        return value

    def names(self, label):
        return ()

    def classes(self, labels, *, column, file):
        return (column,)

    def targets(self, labels, classes):
        return np.array([[0.0 if label is None else label] for label in labels], np.float32)

    def compile_arguments(self):
        import keras

        return {"loss": keras.losses.MeanSquaredError(), "metrics": ["mae"]}

    def prediction(self, logits, classes):
        return LabelPrediction(float(logits[0]))


LABEL_KINDS: dict[str, OneLabel] = {"one": OneLabel(), "many": ManyLabels(), "number": Number()}


def majority_accuracy(train: Sequence, dev: Sequence) -> float:
    """Returns the accuracy on `dev` of always predicting the most frequent label of `train`."""
    ((majority, _),) = Counter(example.label for example in train).most_common(1)
    return accuracy([example.label for example in dev], [majority] * len(dev))


def accuracy(gold: Sequence, predicted: Sequence) -> float:
    """Returns the fraction of examples with the right label."""
    return float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))


def f1(gold: Any, predicted: Any, **details: Any) -> float:
    """Returns scikit-learn's F1 score over the labels that occur in `gold` or `predicted`."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, zero_division=0.0, **details))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns Matthews' correlation coefficient; 0 if only one label is predicted."""
    from sklearn.metrics import matthews_corrcoef

    if len({*gold, *predicted}) == 1:
        return 0.0  # as scikit-learn, which also warns
    return float(matthews_corrcoef(gold, predicted))


def correlation(gold: Sequence[float], predicted: Sequence[float], *, function: str) -> float:
    """Returns a correlation of `scipy.stats`; 0 if all numbers are equal, where SciPy gives NaN."""
    import scipy.stats

    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return float(getattr(scipy.stats, function)(predicted, gold)[0])


def f1_of_sets(gold: Sequence[tuple], predicted: Sequence[tuple], *, average: str) -> float:
    """Returns the "micro" or "macro" F1 score of examples with any number of labels each."""
    labels = sorted({label for several in (*gold, *predicted) for label in several})
    if not labels:
        return 1.0  # no label is expected and none is predicted
    gold_NL, predicted_NL = (
        np.array([[label in each for label in labels] for each in sets], int)
        for sets in (gold, predicted)
    )
    # In one column, scikit-learn would also average over its zeros.
    classes = [1] if len(labels) == 1 else None
    return f1(gold_NL, predicted_NL, average=average, labels=classes)


def mean_score(gold: Sequence, predicted: Sequence, *, names: Sequence[str]) -> float:
    """Returns the mean of the named scores."""
    return float(np.mean([SCORES[name](gold, predicted) for name in names]))


SCORES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "f1": partial(f1, pos_label="1"),  # MRPC and QQP: the label of equivalent texts
    "macro_f1": partial(f1, average="macro"),
    "matthews": matthews,
    "pearson": partial(correlation, function="pearsonr"),
    "spearman": partial(correlation, function="spearmanr"),
    # KLUE-STS: texts are similar from 3 of 5 (KLUE-baseline, metrics/functional.py, klue_sts_f1).
    "f1_of_similar": lambda gold, predicted: f1(np.array(gold) >= 3, np.array(predicted) >= 3),
    "mean_squared_error": lambda gold, predicted: float(np.mean(np.subtract(gold, predicted) ** 2)),
    "micro_f1_of_labels": partial(f1_of_sets, average="micro"),
    "macro_f1_of_labels": partial(f1_of_sets, average="macro"),
    "subset_accuracy": lambda gold, predicted: accuracy([*map(set, gold)], [*map(set, predicted)]),
    # GLUE's overall score uses the mean for a task with two metrics.
    "accuracy_and_f1": partial(mean_score, names=("accuracy", "f1")),
    "pearson_and_spearman": partial(mean_score, names=("pearson", "spearman")),
}
