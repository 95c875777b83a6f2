"""Gold and predicted labels in, the scores of GLUE and of one's own tables out, as fractions."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np


def majority_accuracy(train: Sequence, dev: Sequence) -> float:
    """The accuracy on the examples `dev` of always answering the most frequent label of `train`."""
    ((majority, _),) = Counter(example.label for example in train).most_common(1)
    return float(np.mean([example.label == majority for example in dev]))


def accuracy(gold: Sequence, predicted: Sequence) -> float:
    return float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))


def f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Of the label "1", that of MRPC and QQP for equal."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, pos_label="1", zero_division=0.0))


def macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """The mean over the labels that occur, in gold or predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="macro", zero_division=0.0))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Matthews' correlation; 0 where one label only is predicted."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(gold, predicted))


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """0 where all numbers are the same: SciPy has no answer to that."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, gold, predicted)


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """As `pearson`, of the ranks."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, gold, predicted)


def mean_squared_error(gold: Sequence[float], predicted: Sequence[float]) -> float:
    return float(np.mean(np.square(np.subtract(gold, predicted))))


def micro_f1_of_labels(gold: Sequence[tuple], predicted: Sequence[tuple]) -> float:
    return _f1_of_labels(gold, predicted, average="micro")


def macro_f1_of_labels(gold: Sequence[tuple], predicted: Sequence[tuple]) -> float:
    """The mean over the labels that occur, in gold or predicted."""
    return _f1_of_labels(gold, predicted, average="macro")


def subset_accuracy(gold: Sequence[tuple], predicted: Sequence[tuple]) -> float:
    """The share of examples with exactly the right labels."""
    return accuracy([set(each) for each in gold], [set(each) for each in predicted])


def _f1_of_labels(gold, predicted, *, average: str) -> float:
    from sklearn.metrics import f1_score

    labels = sorted({label for several in (*gold, *predicted) for label in several})
    if not labels:
        return 1.0  # nothing to find, nothing found

    def table(sets):
        return np.array([[label in each for label in labels] for each in sets], int)

    return float(f1_score(table(gold), table(predicted), average=average, zero_division=0.0))


def _correlation(function, gold, predicted) -> float:
    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return float(function(predicted, gold)[0])


def mean_of(*names: str) -> Callable[..., float]:
    def mean(gold: Sequence, predicted: Sequence) -> float:
        return float(np.mean([SCORES[name](gold, predicted) for name in names]))

    return mean


SCORES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "mean_squared_error": mean_squared_error,
    "micro_f1_of_labels": micro_f1_of_labels,
    "macro_f1_of_labels": macro_f1_of_labels,
    "subset_accuracy": subset_accuracy,
    # Of a task with two metrics GLUE's score takes the mean.
    "accuracy_and_f1": mean_of("accuracy", "f1"),
    "pearson_and_spearman": mean_of("pearson", "spearman"),
}
