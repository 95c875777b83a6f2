"""Gold and predicted labels in, the scores of GLUE and of one's own tables out, as fractions."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np


def majority_accuracy(train: Sequence, dev: Sequence) -> float:
    """The accuracy on the examples `dev` of always answering the most frequent label of `train`."""
    ((majority, _),) = Counter(example.label for example in train).most_common(1)
    return float(np.mean([example.label == majority for example in dev]))


def accuracy(gold, predicted, labels) -> float:
    return float(np.mean([one == other for one, other in zip(gold, predicted, strict=True)]))


def f1(gold, predicted, labels) -> float:
    """Of the label "1", that of MRPC and QQP for equal."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, pos_label="1", zero_division=0.0))


def macro_f1(gold, predicted, labels) -> float:
    """The mean over the labels that occur."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="macro", zero_division=0.0))


def matthews(gold, predicted, labels) -> float:
    """Matthews' correlation; 0 where one label only is predicted."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(gold, predicted))


def pearson(gold, predicted, labels) -> float:
    """NaN where all predictions are equal."""
    from scipy.stats import pearsonr

    return float(pearsonr(predicted, gold)[0])


def spearman(gold, predicted, labels) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(predicted, gold)[0])


def mean_squared_error(gold, predicted, labels) -> float:
    return float(np.mean(np.square(np.subtract(gold, predicted))))


def micro_f1_of_sets(gold, predicted, labels) -> float:
    return _f1_of_sets(gold, predicted, labels, average="micro")


def macro_f1_of_sets(gold, predicted, labels) -> float:
    return _f1_of_sets(gold, predicted, labels, average="macro")


def subset_accuracy(gold, predicted, labels) -> float:
    """The share of examples with exactly the right labels."""
    return accuracy(map(set, gold), map(set, predicted), labels)


def _f1_of_sets(gold, predicted, labels, *, average: str) -> float:
    from sklearn.metrics import f1_score

    def table(sets):
        return np.array([[label in each for label in labels] for each in sets], int)

    return float(f1_score(table(gold), table(predicted), average=average, zero_division=0.0))


def mean_of(*names: str) -> Callable[..., float]:
    def mean(gold, predicted, labels) -> float:
        return float(np.mean([SCORES[name](gold, predicted, labels) for name in names]))

    return mean


SCORES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "mean_squared_error": mean_squared_error,
    "micro_f1_of_labels": micro_f1_of_sets,
    "macro_f1_of_labels": macro_f1_of_sets,
    "subset_accuracy": subset_accuracy,
    # Of a task with two metrics GLUE's score takes the mean.
    "accuracy_and_f1": mean_of("accuracy", "f1"),
    "pearson_and_spearman": mean_of("pearson", "spearman"),
}
