"""Scores predicted labels as GLUE and tables of one's own do; scores are fractions."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np


def majority_accuracy(train: Sequence, dev: Sequence) -> float:
    """The accuracy on the examples `dev` of always answering the most frequent label of `train`."""
    ((majority, _),) = Counter(example.label for example in train).most_common(1)
    return float(np.mean([example.label == majority for example in dev]))


def accuracy(gold: Sequence, predicted: Sequence) -> float:
    """The share of examples with the right label."""
    return float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))


def f1(gold: Any, predicted: Any, **details: Any) -> float:
    """scikit-learn's F1; averages are taken over the labels that occur, in gold or predicted."""
    from sklearn.metrics import f1_score

    details["zero_division"] = 0.0
    return float(f1_score(gold, predicted, **details))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Matthews' correlation; 0 where one label only is predicted."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(gold, predicted))


def correlation(gold: Sequence[float], predicted: Sequence[float], *, function: str) -> float:
    """The correlation that a function of SciPy gives; 0 where all numbers are the same, to which
    SciPy has no answer."""
    import scipy.stats

    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return float(getattr(scipy.stats, function)(predicted, gold)[0])


def mean_squared_error(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """The mean of the squared differences."""
    return float(np.mean(np.square(np.subtract(gold, predicted))))


def f1_of_sets(gold: Sequence[tuple], predicted: Sequence[tuple], *, average: str) -> float:
    """F1 of examples with any number of labels each."""
    labels = sorted({label for several in (*gold, *predicted) for label in several})
    if not labels:
        return 1.0  # nothing to find, nothing found
    gold_NL, predicted_NL = (
        np.array([[label in each for label in labels] for each in sets], int)
        for sets in (gold, predicted)
    )
    return f1(gold_NL, predicted_NL, average=average)


def subset_accuracy(gold: Sequence[tuple], predicted: Sequence[tuple]) -> float:
    """The share of examples with exactly the right labels."""
    return accuracy([set(each) for each in gold], [set(each) for each in predicted])


def mean_score(gold: Sequence, predicted: Sequence, *, names: Sequence[str]) -> float:
    """The mean of several scores."""
    return float(np.mean([SCORES[name](gold, predicted) for name in names]))


SCORES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "f1": partial(f1, pos_label="1"),  # of MRPC and QQP: the label of equal texts
    "macro_f1": partial(f1, average="macro"),
    "matthews": matthews,
    "pearson": partial(correlation, function="pearsonr"),
    "spearman": partial(correlation, function="spearmanr"),
    "mean_squared_error": mean_squared_error,
    "micro_f1_of_labels": partial(f1_of_sets, average="micro"),
    "macro_f1_of_labels": partial(f1_of_sets, average="macro"),
    "subset_accuracy": subset_accuracy,
    # Of a task with two metrics GLUE's score takes the mean.
    "accuracy_and_f1": partial(mean_score, names=("accuracy", "f1")),
    "pearson_and_spearman": partial(mean_score, names=("pearson", "spearman")),
}
