"""Trains embeddings whose first dimensions are embeddings too."""

from collections.abc import Sequence

import keras

from bert_keras.errors import InputError
from bert_keras.training.base_sentence_loss import SentenceLoss, unit, widened


@keras.saving.register_keras_serializable(package="bert_keras")
class MatryoshkaLoss(SentenceLoss):
    """The weighted sum of a loss over the first dimensions of the embeddings, normalised.

    Embeddings that were trained with it can be cut to any of `dimensions`.

    Args:
        loss: A loss of embeddings, such as MultipleNegativesRankingLoss.
        dimensions: The sizes to which the embeddings are cut.
        weights: A factor for each size; 1 by default.
        name: The name of the loss.

    Source: Kusupati et al. 2022, "Matryoshka Representation Learning", section 3; equal to
    MatryoshkaLoss of sentence-transformers 6.2.

    Example:

    ```python
    loss = MatryoshkaLoss(MultipleNegativesRankingLoss(), dimensions=[768, 256, 64])
    ```
    """

    arguments = ("dimensions", "weights")

    def __init__(
        self,
        loss: SentenceLoss,
        *,
        dimensions: Sequence[int],
        weights: Sequence[float] | None = None,
        name: str = "matryoshka_loss",
    ):
        if not isinstance(loss, SentenceLoss):
            raise InputError(
                f"the loss is {loss!r}; expected a loss of embeddings, such as CoSENTLoss"
            )
        super().__init__(name=name, reduction=loss.reduction)
        self.loss, self.dimensions = loss, tuple(dimensions)
        self.weights = tuple([1.0] * len(self.dimensions) if weights is None else weights)
        if not self.dimensions or min(self.dimensions) < 1:
            raise InputError(
                f"dimensions is {self.dimensions}; expected one or more sizes of at least 1"
            )
        if len(self.weights) != len(self.dimensions):
            raise InputError(
                f"weights has {len(self.weights)} values and dimensions {len(self.dimensions)}; "
                "expected a weight for each dimension"
            )
        self.needs_whole_batch = loss.needs_whole_batch
        self.reads_targets = loss.reads_targets

    def get_config(self):
        config = {**super().get_config(), "loss": keras.losses.serialize(self.loss)}
        del config["reduction"]  # that of the loss
        return config

    @classmethod
    def from_config(cls, config):
        arguments = {**config}
        return cls(keras.losses.deserialize(arguments.pop("loss")), **arguments)

    def sum(self, y_true, y_pred, sample_weight=None):
        size = y_pred.shape[-1]
        if max(self.dimensions) > size:
            raise InputError(
                f"dimensions is {self.dimensions}; expected at most {size}, the size of the "
                "embeddings"
            )
        vectors = widened(y_pred)
        return sum(
            weight * self.loss.sum(y_true, unit(vectors[..., :dimension]), sample_weight)
            for dimension, weight in zip(self.dimensions, self.weights, strict=True)
        )

    def weight(self, y_true, sample_weight=None):
        return self.loss.weight(y_true, sample_weight)
