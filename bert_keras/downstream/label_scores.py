"""Computes scores of predicted labels; accuracies and F1 scores are fractions of 1."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np


def majority_accuracy(train: Sequence, dev: Sequence) -> float:
    """Returns the accuracy on `dev` of always predicting the most frequent label of `train`."""
    ((majority, _),) = Counter(example.label for example in train).most_common(1)
    return float(np.mean([example.label == majority for example in dev]))


def accuracy(gold: Sequence, predicted: Sequence) -> float:
    """Returns the fraction of examples with the right label."""
    return float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))


def f1(gold: Any, predicted: Any, **details: Any) -> float:
    """Returns scikit-learn's F1 score.

    Averages are taken over the labels that occur in `gold` or `predicted`.

    Args:
        gold: The true labels.
        predicted: The predicted labels.
        details: Other arguments of `sklearn.metrics.f1_score`, such as `average`.
    """
    from sklearn.metrics import f1_score

    details["zero_division"] = 0.0
    return float(f1_score(gold, predicted, **details))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns Matthews' correlation coefficient; 0 if only one label is predicted."""
    from sklearn.metrics import matthews_corrcoef

    if len({*gold, *predicted}) == 1:
        return 0.0  # as scikit-learn, which also warns
    return float(matthews_corrcoef(gold, predicted))


def correlation(gold: Sequence[float], predicted: Sequence[float], *, function: str) -> float:
    """Returns the correlation that a function of `scipy.stats` computes.

    Returns 0 if all numbers of `gold` or of `predicted` are equal, for which SciPy gives NaN.

    Args:
        gold: The true numbers.
        predicted: The predicted numbers.
        function: "pearsonr" or "spearmanr".
    """
    import scipy.stats

    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return float(getattr(scipy.stats, function)(predicted, gold)[0])


def f1_of_similar(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the F1 score of the class of similar texts: numbers of at least 3 of 5.

    KLUE-STS is scored this way (KLUE-baseline, metrics/functional.py, `klue_sts_f1`).
    """
    return f1(np.greater_equal(gold, 3), np.greater_equal(predicted, 3))


def mean_squared_error(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the mean of the squared differences."""
    return float(np.mean(np.square(np.subtract(gold, predicted))))


def f1_of_sets(gold: Sequence[tuple], predicted: Sequence[tuple], *, average: str) -> float:
    """Returns the F1 score of examples with any number of labels each.

    Args:
        gold: The true labels of each example.
        predicted: The predicted labels of each example.
        average: "micro" or "macro", as in `sklearn.metrics.f1_score`.
    """
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


def subset_accuracy(gold: Sequence[tuple], predicted: Sequence[tuple]) -> float:
    """Returns the fraction of examples with exactly the right labels."""
    return accuracy([set(each) for each in gold], [set(each) for each in predicted])


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
    "f1_of_similar": f1_of_similar,
    "mean_squared_error": mean_squared_error,
    "micro_f1_of_labels": partial(f1_of_sets, average="micro"),
    "macro_f1_of_labels": partial(f1_of_sets, average="macro"),
    "subset_accuracy": subset_accuracy,
    # GLUE's overall score uses the mean for a task with two metrics.
    "accuracy_and_f1": partial(mean_score, names=("accuracy", "f1")),
    "pearson_and_spearman": partial(mean_score, names=("pearson", "spearman")),
}
