"""Losses of sentence embeddings [B, G, E]: the embeddings of G texts for each of B examples."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.distribution.loss import GlobalLoss
from bert_keras.errors import InputError, check_name
from bert_keras.layers import Tensor

SIMILARITIES = ("cosine", "dot")
DIRECTIONS = ("query_to_document", "both")


class SentenceLoss(GlobalLoss):
    """The base class of losses of embeddings [B, G, E], with the arguments of keras.losses.Loss."""

    arguments: tuple[str, ...] = ()  # constructor arguments that are also attributes
    num_texts = "2"  # number of texts of an example, for error messages

    def get_config(self):
        return {**super().get_config(), **{name: getattr(self, name) for name in self.arguments}}

    def columns(self, y_pred: Tensor):
        """Returns the embeddings of each text in float32 or wider, [G, B, E]."""
        shape = tuple(y_pred.shape)
        size = shape[1] if len(shape) == 3 else 0
        if size is not None and (size < 2 or (size > 2 and self.num_texts == "2")):
            raise InputError(
                f"the embeddings have the shape {shape}; expected [examples, texts, size] with "
                f"{self.num_texts} texts"
            )
        return ops.moveaxis(widen(y_pred), 1, 0)

    def targets(self, y_true: Tensor, y_pred: Tensor):
        """Returns the targets [B], one for each example, in the dtype of `columns`."""
        if (shape := tuple(y_true.shape))[1:] not in ((), (1,)):
            raise InputError(f"the targets have the shape {shape}; expected one for each example")
        return ops.reshape(ops.cast(y_true, widen(y_pred).dtype), (-1,))


def widen(values: Tensor):
    """Converts floats narrower than float32 to float32."""
    return ops.cast(values, keras.backend.result_type(values.dtype, "float32"))


def unit(vectors: Tensor):
    """Normalises vectors [..., E] to length 1; vectors shorter than 1e-12 are divided by 1e-12."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-24))  # its gradient at 0 is finite


def cosine(a: Tensor, b: Tensor):
    """Returns the cosines [...] of pairs of vectors [..., E]."""
    return ops.sum(unit(a) * unit(b), axis=-1)


@keras.saving.register_keras_serializable(package="bert_keras")
class MultipleNegativesRankingLoss(SentenceLoss):
    """The cross-entropy of finding a query's document among all documents of the global batch.

    The texts of an example are a query, its document and any number of hard negatives. The C
    candidates of a query are the documents and hard negatives of all examples, on all replicas. The
    logits are `scale` x similarity. The targets are not read, so `fit` needs none.

    Args:
        scale: Multiplies the similarities; 1 / temperature.
        similarity: "cosine" or "dot".
        directions: "query_to_document", or "both": the mean of this loss and of the loss of finding
            a document's query among all queries.
        name: The name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`. Sample weights multiply the losses of
            queries; a document is a candidate regardless of its weight.

    Source: Henderson et al. 2017, "Efficient Natural Language Response Suggestion for Smart Reply",
    section 4.4; equal to MultipleNegativesRankingLoss of sentence-transformers 6.2, with "both" to
    its directions ("query_to_doc", "doc_to_query") with one softmax each.

    Example:

    ```python
    model = BertSentenceEncoder(preset("tiny", vocab_size=4_000))
    model.compile(BertAdamW(2e-5), loss=MultipleNegativesRankingLoss())
    ```
    """

    arguments = ("scale", "similarity", "directions")
    num_texts = "2 or more"  # a query, its document and any hard negatives
    needs_whole_batch = True

    def __init__(
        self,
        *,
        scale: float = 20.0,
        similarity: str = "cosine",
        directions: str = "query_to_document",
        name: str = "multiple_negatives_ranking_loss",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        check_name(similarity, SIMILARITIES, what="similarity")
        check_name(directions, DIRECTIONS, what="directions")
        self.scale, self.similarity, self.directions = scale, similarity, directions

    def call(self, y_true: Tensor, y_pred: Tensor, is_copy: Tensor = None):
        columns_GBE = self.columns(y_pred)
        if self.similarity == "cosine":
            columns_GBE = unit(columns_GBE)
        queries_BE, documents_BE = columns_GBE[0], columns_GBE[1]
        candidates_CE = ops.reshape(columns_GBE[1:], (-1, columns_GBE.shape[-1]))
        logits_BC = self._logits(queries_BE, candidates_CE, is_copy)
        totals_B = ops.logsumexp(logits_BC, axis=-1)
        if self.directions == "both":
            backward_BB = self._logits(documents_BE, queries_BE, is_copy)
            totals_B = (totals_B + ops.logsumexp(backward_BB, axis=-1)) / 2
        return totals_B - ops.diagonal(logits_BC)  # the documents are the first candidates

    def _logits(self, texts_BE, candidates_CE, is_copy_B):
        logits_BC = self.scale * ops.matmul(texts_BE, ops.transpose(candidates_CE))
        if is_copy_B is None:
            return logits_BC
        is_copy_C = ops.tile(is_copy_B, logits_BC.shape[1] // logits_BC.shape[0])
        return logits_BC - 1e9 * ops.cast(is_copy_C, logits_BC.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class CoSENTLoss(SentenceLoss):
    """Penalises pairs of examples whose cosines are in the wrong order.

    An example is two texts, and its target is their similarity on any scale. The loss is log(1 +
    the sum of exp(scale x (cosine of i - cosine of j)) over all examples i and j of the global
    batch with target of i < target of j). It is a scalar, so it takes no sample weights.

    Args:
        scale: Multiplies the differences of cosines.
        name: The name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`.

    Source: Huang et al. 2024, "CoSENT: Consistent Sentence Embedding via Similarity Ranking"; equal
    to CoSENTLoss of sentence-transformers 6.2.

    Example:

    ```python
    embeddings = np.random.normal(size=(3, 2, 8))  # of three pairs of texts
    loss = CoSENTLoss()(np.array([0.0, 2.5, 5.0]), embeddings)
    ```
    """

    arguments = ("scale",)
    needs_whole_batch = True

    def __init__(self, *, scale: float = 20.0, name: str = "cosent_loss", **kwargs):
        super().__init__(name=name, **{"reduction": "sum", **kwargs})
        self.scale = scale

    def call(self, y_true: Tensor, y_pred: Tensor, is_copy: Tensor = None):
        logits_B = self.scale * cosine(*ops.unstack(self.columns(y_pred), 2))
        targets_B = self.targets(y_true, y_pred)
        differences_BB = logits_B[:, None] - logits_B[None, :]
        if is_copy is not None:  # no comparison with NaN is true
            targets_B = ops.where(is_copy, float("nan"), targets_B)
        is_lower_BB = targets_B[:, None] < targets_B[None, :]
        penalties_X = ops.reshape(ops.where(is_lower_BB, differences_BB, -float("inf")), (-1,))
        return ops.logsumexp(ops.concatenate([ops.zeros_like(logits_B[:1]), penalties_X]))


@keras.saving.register_keras_serializable(package="bert_keras")
class CosineSimilarityLoss(SentenceLoss):
    """The squared difference of the cosine of two texts from the target, from -1 to 1.

    Equal to CosineSimilarityLoss of sentence-transformers 6.2.

    Example:

    ```python
    embeddings = np.random.normal(size=(3, 2, 8))  # of three pairs of texts
    loss = CosineSimilarityLoss()(np.array([0.0, 0.5, 1.0]), embeddings)
    ```
    """

    def __init__(self, *, name: str = "cosine_similarity_loss", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        cosines_B = cosine(*ops.unstack(self.columns(y_pred), 2))
        return ops.square(cosines_B - self.targets(y_true, y_pred))


@keras.saving.register_keras_serializable(package="bert_keras")
class MatryoshkaLoss(SentenceLoss):
    """The weighted sum of a loss over normalised first parts of the embeddings.

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
        super().__init__(name=name, reduction=loss.reduction)
        self.loss, self.dimensions = loss, tuple(dimensions)
        self.weights = tuple([1.0] * len(self.dimensions) if weights is None else weights)
        self.needs_whole_batch = loss.needs_whole_batch

    def get_config(self):
        config = {**super().get_config(), "loss": keras.losses.serialize(self.loss)}
        del config["reduction"]  # the inner loss has it
        return config

    @classmethod
    def from_config(cls, config: dict):
        return cls(**{**config, "loss": keras.losses.deserialize(config["loss"])})

    def weighted_sum(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor = None, is_copy: Tensor = None
    ):
        size, largest = y_pred.shape[-1], max(self.dimensions)
        if largest > size:
            raise InputError(f"a dimension is {largest}; the size of the embeddings is {size}")
        vectors = widen(y_pred)
        return sum(
            weight
            * self.loss.weighted_sum(y_true, unit(vectors[..., :dimension]), sample_weight, is_copy)
            for dimension, weight in zip(self.dimensions, self.weights, strict=True)
        )


# Name of a loss in the tasks of sentence embeddings -> its class
LOSSES: dict[str, type[SentenceLoss]] = {
    "cosent": CoSENTLoss,
    "cosine": CosineSimilarityLoss,
    "ranking": MultipleNegativesRankingLoss,
}
