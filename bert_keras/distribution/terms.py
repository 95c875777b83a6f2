"""Computes the losses of all outputs of a model over the global batch."""

from typing import NamedTuple

import tensorflow as tf

from bert_keras.distribution.reduction import SummedLoss
from bert_keras.distribution.replicas import (
    concatenated_over_replicas,
    num_replicas,
    sum_over_replicas,
)


class Term(NamedTuple):
    """The loss of one model output."""

    name: str | None  # the output; None for a model with one output
    loss: SummedLoss
    factor: float  # factor of the loss in the sum over all outputs

    def select(self, structure):
        """Returns the entry of this output in a dict; any other structure is returned unchanged."""
        return structure[self.name] if isinstance(structure, dict) else structure


def total_weights(terms: list[Term], y, weight) -> list:
    """Returns the weight of the global batch for each term, the divisor of its mean."""
    weights = [term.loss.weight(term.select(y), term.select(weight)) for term in terms]
    return sum_over_replicas(weights)


def means_of(terms: list[Term], y, y_pred, weight, total_weights: list) -> list:
    """Returns this part's contribution to each term's mean over the global batch."""
    num_copies = 1 if tf.distribute.in_cross_replica_context() else num_replicas()
    means = []
    for term, total_weight in zip(terms, total_weights, strict=True):
        rows = [term.select(each) for each in (y, y_pred, weight)]
        if term.loss.needs_whole_batch:
            # Each replica computes the same sum over the rows of all replicas.
            total = term.loss.sum(*_concatenated(rows)) / num_copies
        else:
            total = term.loss.sum(*rows)
        means.append(term.loss.mean(total, total_weight))
    return means or [tf.zeros(())]


def _concatenated(rows: list) -> list:
    """Returns targets, outputs and sample weights of all replicas; None stays None."""
    tensors = iter(concatenated_over_replicas([each for each in rows if each is not None]))
    return [None if each is None else next(tensors) for each in rows]


def sum_of(terms: list[Term], means: list):
    """Returns the sum of the means, weighted with the `loss_weights` of `compile`."""
    factors = [term.factor for term in terms] or [1]
    return tf.add_n([m if f == 1 else f * m for f, m in zip(factors, means, strict=True)])
