"""Computes the losses of all outputs of a model over the global batch."""

from typing import NamedTuple

import tensorflow as tf

from bert_keras.distribution.reduction import SummedLoss
from bert_keras.distribution.replicas import (
    concatenated_over_replicas,
    num_replicas,
    sum_over_replicas,
)
from bert_keras.errors import InputError


class Term(NamedTuple):
    """The loss of one model output."""

    name: str | None  # the output; None for a model with one output
    loss: SummedLoss
    factor: float  # factor of the loss in the sum over all outputs

    def select(self, structure):
        """Returns the entry of this output in a dict; any other structure is returned unchanged.

        Raises:
            InputError: The dict has no such entry, or only the outputs are a dict.
        """
        if not isinstance(structure, dict):
            return structure
        names = ", ".join(structure)
        if self.name is None:
            raise InputError(f"the targets are not a dict; expected one for each of {names}")
        if self.name not in structure:
            raise InputError(f"loss has the output {self.name}; expected outputs of {names}")
        return structure[self.name]


def check_losses(loss, loss_weights) -> None:
    """Raises InputError if a train step cannot use these arguments of `compile`."""
    for name, value in (("loss", loss), ("loss_weights", loss_weights)):
        if isinstance(value, list | tuple):
            raise InputError(f"{name} is a {type(value).__name__}; expected a dict by output")
    if not (isinstance(loss, dict) and isinstance(loss_weights, dict)):
        return
    if unknown := sorted(loss_weights.keys() - loss.keys()):
        raise InputError(
            f"loss_weights has {', '.join(unknown)}, which loss has not; expected only "
            f"{', '.join(loss)}"
        )


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
