"""The losses of sentence embeddings.

All read `y_pred` [B, G, E], the embeddings of the G texts of each of B examples, and compute in
float32 or wider. Other shape letters: N negatives of an example, C candidates.
"""

import keras
from keras import ops

from bert_keras.errors import InputError, check_name
from bert_keras.training.base_sentence_loss import SentenceLoss, cosine, length, unit

SIMILARITIES = ("cosine", "dot")
DISTANCES = ("euclidean", "cosine")
DIRECTIONS = ("query_to_document", "both")


@keras.saving.register_keras_serializable(package="bert_keras")
class MultipleNegativesRankingLoss(SentenceLoss):
    """The cross-entropy of finding a query's document among all documents of the global batch.

    The texts of an example are a query, its document and any number of hard negatives. The
    candidates of a query are the documents and the hard negatives of all examples, on all replicas.
    The logits are `scale` x similarity. The targets are not read, so `fit` needs none.

    With `gradient_accumulation_steps` in `compile`, the candidates are still those of the whole
    batch: the step first computes all embeddings, then computes each part again for its gradients
    (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup").

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
    texts = "a query, its document and any number of hard negatives"
    num_texts = (2, None)
    needs_whole_batch = True
    reads_targets = False

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

    def call(self, y_true, y_pred):
        columns_GBE = self.columns(y_pred)
        if self.similarity == "cosine":
            columns_GBE = unit(columns_GBE)
        queries_BE, documents_BE = columns_GBE[0], columns_GBE[1]
        candidates_CE = ops.reshape(columns_GBE[1:], (-1, columns_GBE.shape[-1]))
        logits_BC = self._logits(queries_BE, candidates_CE)
        totals_B = ops.logsumexp(logits_BC, axis=-1)
        if self.directions == "both":
            backward_BB = self._logits(documents_BE, queries_BE)
            totals_B = (totals_B + ops.logsumexp(backward_BB, axis=-1)) / 2
        return totals_B - ops.diagonal(logits_BC)  # the documents are the first candidates

    def _logits(self, texts_BE, candidates_CE):
        return self.scale * ops.matmul(texts_BE, ops.transpose(candidates_CE))


@keras.saving.register_keras_serializable(package="bert_keras")
class CoSENTLoss(SentenceLoss):
    """Penalises each two pairs of texts whose cosines are in the wrong order.

    The target of a pair is its similarity on any scale. The loss is log(1 + the sum of
    exp(scale x (cosine of i - cosine of j)) over all examples i and j of the global batch with
    target of i < target of j). It is one number for the batch, so it takes no sample weights.
    `gradient_accumulation_steps` is exact, as for MultipleNegativesRankingLoss.

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
    texts = "two texts, whose similarity is the target"
    needs_whole_batch = True

    def __init__(self, *, scale: float = 20.0, name: str = "cosent_loss", **kwargs):
        super().__init__(name=name, **{"reduction": "sum", **kwargs})
        self.scale = scale

    def call(self, y_true, y_pred):
        logits_B = self.scale * cosine(*ops.unstack(self.columns(y_pred), 2))
        scores_B = self.scores(y_true, y_pred)
        differences_BB = logits_B[:, None] - logits_B[None, :]
        is_lower_BB = scores_B[:, None] < scores_B[None, :]
        penalties_X = ops.reshape(ops.where(is_lower_BB, differences_BB, -float("inf")), (-1,))
        return ops.logsumexp(ops.concatenate([ops.zeros_like(logits_B[:1]), penalties_X]))

    def sum(self, y_true, y_pred, sample_weight=None):
        if sample_weight is not None:
            raise InputError(
                "CoSENTLoss received sample weights; expected none, because it compares examples"
            )
        return super().sum(y_true, y_pred)


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

    texts = "two texts, whose cosine is the target"

    def __init__(self, *, name: str = "cosine_similarity_loss", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        cosines_B = cosine(*ops.unstack(self.columns(y_pred), 2))
        return ops.square(cosines_B - self.scores(y_true, y_pred))


@keras.saving.register_keras_serializable(package="bert_keras")
class TripletLoss(SentenceLoss):
    """max(0, distance to the positive - distance to the negative + margin).

    The texts of an example are an anchor, a positive and a negative. The targets are not read, so
    `fit` needs none.

    Args:
        distance: "euclidean", or "cosine": 1 - the cosine.
        margin: The difference of distances above which the loss is 0. 5 suits euclidean distances
            of embeddings that are not normalised; a cosine distance is at most 2.
        name: The name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", section 3; equal to TripletLoss of
    sentence-transformers 6.2.

    Example:

    ```python
    embeddings = np.random.normal(size=(3, 3, 8))  # of three triplets
    loss = TripletLoss(distance="cosine", margin=0.5)(np.zeros(3), embeddings)
    ```
    """

    arguments = ("distance", "margin")
    texts = "an anchor, a positive and a negative"
    num_texts = (3, 3)
    reads_targets = False

    def __init__(
        self,
        *,
        distance: str = "euclidean",
        margin: float = 5.0,
        name: str = "triplet_loss",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        check_name(distance, DISTANCES, what="distance")
        self.distance, self.margin = distance, margin

    def call(self, y_true, y_pred):
        anchors_BE, positives_BE, negatives_BE = ops.unstack(self.columns(y_pred), 3)
        if self.distance == "cosine":
            difference_B = cosine(anchors_BE, negatives_BE) - cosine(anchors_BE, positives_BE)
        else:
            to_positives_B = length(anchors_BE - positives_BE)
            difference_B = to_positives_B - length(anchors_BE - negatives_BE)
        return ops.relu(difference_B + self.margin)


@keras.saving.register_keras_serializable(package="bert_keras")
class MarginMSELoss(SentenceLoss):
    """The squared difference of the margins of two models, for the distillation of scores.

    The texts of an example are a query, a document and one or more negatives. A margin is the score
    of the query with the document minus its score with a negative. The targets are the teacher's
    margins, [B, N] or, for one negative, [B]; or the teacher's scores of the document and of each
    negative, [B, N + 1].

    Args:
        similarity: "dot" or "cosine".
        name: The name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`.

    Source: Hofstätter et al. 2020, arXiv 2010.02666, section 3; equal to MarginMSELoss of
    sentence-transformers 6.2.

    Example:

    ```python
    embeddings = np.random.normal(size=(2, 3, 8))  # of two queries with a negative each
    loss = MarginMSELoss()(np.array([3.1, 0.4]), embeddings)
    ```
    """

    arguments = ("similarity",)
    texts = "a query, a document and one or more negatives"
    num_texts = (3, None)

    def __init__(self, *, similarity: str = "dot", name: str = "margin_mse_loss", **kwargs):
        super().__init__(name=name, **kwargs)
        check_name(similarity, SIMILARITIES, what="similarity")
        self.similarity = similarity

    def call(self, y_true, y_pred):
        columns_GBE = self.columns(y_pred)
        if self.similarity == "cosine":
            columns_GBE = unit(columns_GBE)
        scores_BG = ops.transpose(ops.sum(columns_GBE[:1] * columns_GBE[1:], axis=-1))
        margins_BN = scores_BG[:, :1] - scores_BG[:, 1:]
        targets_BN = self._margins(ops.cast(y_true, margins_BN.dtype), margins_BN.shape[1])
        return ops.mean(ops.square(margins_BN - targets_BN), axis=-1)

    def _margins(self, y_true, num_negatives: int):
        columns = tuple(y_true.shape)[1:]
        if columns == (num_negatives + 1,):
            return y_true[:, :1] - y_true[:, 1:]
        if columns not in ((num_negatives,), ()) or (columns == () and num_negatives > 1):
            raise InputError(
                f"MarginMSELoss received targets of the shape {tuple(y_true.shape)} for "
                f"{num_negatives} negatives; expected [examples, {num_negatives}] for margins or "
                f"[examples, {num_negatives + 1}] for scores"
            )
        return ops.reshape(y_true, (-1, num_negatives))
