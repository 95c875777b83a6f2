"""The base class of tasks whose model embeds each text separately, and the encoding of texts."""

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bert_keras.config import EmbeddingConfig, ModelMetadata
from bert_keras.data.buckets import distinct_batches
from bert_keras.downstream.task import Encoded, Example, Outputs, Scores, Task
from bert_keras.downstream.texts import EncodedGroups, EncodedTexts, Ids, num_tokens
from bert_keras.errors import InputError, check, check_choice, check_least
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.training.sentence_losses import MatryoshkaLoss, SentenceLoss

Losses = Mapping[str, type[SentenceLoss]]  # name of a loss -> its class


@dataclass(frozen=True, slots=True)
class SentencePrediction:
    """The prediction for an example from the cosines of its embeddings."""

    value: Any  # of the complete embeddings
    smaller: dict[int, Any] = field(default_factory=dict)  # of embeddings cut to that size


@dataclass(frozen=True, kw_only=True)
class SentenceTask(Task[Example, Encoded, SentencePrediction]):
    """A task whose examples are groups of texts, and whose scores are those of their cosines.

    Raises:
        InputError: A field has an impossible value; the message names it.
    """

    max_length: int = 128  # maximum number of tokens of a text; longer texts lose their end
    loss: str  # a name in `losses`
    # Trains and scores embeddings that are cut to these sizes, the largest of which is the complete
    # size (Kusupati et al. 2022, "Matryoshka Representation Learning").
    dimensions: tuple[int, ...] = ()
    # How the hidden states of a text become one vector, such as "cls"; several are concatenated.
    # Without a value, the pooling of the checkpoint, or the mean if it has none.
    pooling: tuple[str, ...] = ()

    model: ClassVar[str] = "BertSentenceEncoder"
    scores_other_tasks: ClassVar[bool] = True
    losses: ClassVar[Losses]

    def __post_init__(self):
        check_least(self, 3, "max_length")
        check_choice(self, "loss", self.losses)
        sizes = {size for size in self.dimensions if size > 0}
        is_valid = len(sizes) == len(self.dimensions)
        check(is_valid, f"dimensions are {self.dimensions}; expected numbers above 0, each once")

    def compile_arguments(self) -> dict:
        loss = self.losses[self.loss]()
        if self.dimensions:
            loss = MatryoshkaLoss(loss, dimensions=self.dimensions)
        return {"loss": loss}

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig:
        """Returns the embedding of the model: that of the checkpoint with the task's pooling.

        Raises:
            InputError: The largest of `dimensions` is not the size of the embedding.
        """
        embedding = source.embedding or EmbeddingConfig()
        embedding = dataclasses.replace(
            embedding, pooling=self.pooling or embedding.pooling, default_prompt_name=None
        )
        size = embedding.sizes(source.config.hidden_size)[-1]
        if self.dimensions and max(self.dimensions) != size:
            found = f"the largest of dimensions is {max(self.dimensions)}"
            raise InputError(f"{found}; expected {size}, the size of the embeddings")
        return embedding

    @abc.abstractmethod
    def compared(self, examples: Sequence[Example], encoded: Any, units: np.ndarray) -> Sequence:
        """Returns the value of the prediction for each example.

        Args:
            examples: The examples.
            encoded: Their rows, as `encode_to_score` returns them.
            units: The embeddings of the texts of the rows, divided by their norms, [N, (G,) E].
        """

    @abc.abstractmethod
    def scores_of(self, examples: Sequence[Example], values: Sequence) -> Scores:
        """Returns the scores of the values of predictions."""

    def predictions(
        self, examples: Sequence[Example], encoded: Encoded, outputs: Outputs
    ) -> list[SentencePrediction]:
        vectors = np.asarray(outputs)
        size, largest = vectors.shape[-1], max(self.dimensions, default=0)
        check(largest <= size, f"dimensions has {largest}, but embeddings have {size} values")
        smaller = {
            dimension: self.compared(examples, encoded, unit_vectors(vectors[..., :dimension]))
            for dimension in self.dimensions
            if dimension < size
        }
        return [
            SentencePrediction(value, {size: values[row] for size, values in smaller.items()})
            for row, value in enumerate(self.compared(examples, encoded, unit_vectors(vectors)))
        ]

    def score(
        self, examples: Sequence[Example], predictions: Sequence[SentencePrediction]
    ) -> Scores:
        """Returns the scores, and those of each smaller size with names such as `spearman_64d`."""
        scores = self.scores_of(examples, [each.value for each in predictions])
        for size in predictions[0].smaller:
            cut = self.scores_of(examples, [each.smaller[size] for each in predictions])
            scores |= {score_name(name, size): value for name, value in cut.items()}
        return scores


def score_name(name: str, dimension: int) -> str:
    """Returns the name of a score of embeddings that are cut to `dimension` components."""
    return f"{name}_{dimension}d"


def required_text(values: Mapping[str, str], column: str, *, location: str) -> str:
    """Returns the text of a column; raises InputError if it is empty."""
    check(values[column].strip(), f"{location} has an empty {column}; expected a text")
    return values[column]


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors, float32 [..., E], divided by their norms."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class EncodedSentenceGroups(EncodedGroups):
    """N examples of G texts each; a batch has inputs of shape [B, G, T]."""

    has_fixed_groups: ClassVar[bool] = True


@dataclass(frozen=True)
class DistinctSentenceGroups(EncodedSentenceGroups):
    """Groups whose training batches contain no text twice, for losses with in-batch negatives.

    Texts with the same tokens are the same text. The texts of one example may be the same.
    """

    def shuffled_batches(self, *, batch_size: int, seed: int) -> Iterator[np.ndarray]:
        limit, numbers = self.max_length - self.vocabulary.num_specials(1), {}
        flat = [numbers.setdefault(tuple(ids[:limit]), len(numbers)) for ids in self.texts[0]]
        texts_NG = np.array(flat, np.int64).reshape(len(self), -1)
        return distinct_batches(self.lengths, texts_NG, batch_size=batch_size, seed=seed)


def encoded_groups(
    groups: Sequence[Sequence[str]],
    targets: np.ndarray,
    tokenizer: TextTokenizer,
    *,
    max_length: int,
    layout: type[EncodedSentenceGroups] = EncodedSentenceGroups,
) -> EncodedSentenceGroups:
    """Encodes N groups of G texts; a longer text loses the tokens at its end.

    `targets` are those of the loss, [N] or [N, G - 2], and `layout` is the class of the result.
    """
    texts = (_ids([text for group in groups for text in group], tokenizer),)
    lengths_NG = num_tokens(texts, tokenizer.vocabulary).reshape(len(groups), -1)
    return layout(
        texts,
        targets,
        max_length,
        tokenizer.vocabulary,
        np.minimum(lengths_NG.max(axis=1), max_length),
        lengths_NG.shape[1] * np.arange(len(groups) + 1),
    )


def encoded_sentences(
    texts: Sequence[str], tokenizer: TextTokenizer, *, max_length: int
) -> EncodedTexts:
    """Encodes N texts without targets; a longer text loses the tokens at its end."""
    ids = (_ids(texts, tokenizer),)
    lengths = np.minimum(num_tokens(ids, tokenizer.vocabulary), max_length)
    return EncodedTexts(ids, None, max_length, tokenizer.vocabulary, lengths)


def _ids(texts: Sequence[str], tokenizer: TextTokenizer) -> Ids:
    """Returns the token ids of texts; a text that occurs several times is tokenized once."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    ids = tokenizer.ids_batch(list(numbers))
    return [ids[numbers[text]] for text in texts]
