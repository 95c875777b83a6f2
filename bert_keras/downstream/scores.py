"""Computes the scores of labels: accuracy, F1, correlations and those of GLUE and KLUE."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np


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
