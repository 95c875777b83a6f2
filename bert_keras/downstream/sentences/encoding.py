"""Encodes groups of texts that are embedded separately, and single texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bert_keras.data.buckets import distinct_batches
from bert_keras.downstream.texts import EncodedGroups, EncodedTexts, Ids, num_tokens
from bert_keras.text.tokenizer import TextTokenizer


@dataclass(frozen=True)
class EncodedSentenceGroups(EncodedGroups):
    """N examples of G texts each; a batch has inputs of shape [B, G, T]."""

    has_fixed_groups: ClassVar[bool] = True

    @property
    def num_texts(self) -> int:
        """The number of texts of an example, G."""
        return int(self.bounds[1])


@dataclass(frozen=True)
class DistinctSentenceGroups(EncodedSentenceGroups):
    """Groups whose training batches contain no text twice, for losses with in-batch negatives.

    Texts with the same tokens are the same text. The texts of one example may be the same.
    """

    def shuffled_batches(self, *, batch_size: int, seed: int) -> Iterator[np.ndarray]:
        return distinct_batches(self.lengths, self.text_numbers(), batch_size=batch_size, seed=seed)

    def text_numbers(self) -> np.ndarray:
        """Returns the number of each text, int64 [N, G]; texts with the same tokens share it."""
        limit, numbers = self.max_length - self.vocabulary.num_specials(1), {}
        flat = [numbers.setdefault(tuple(ids[:limit]), len(numbers)) for ids in self.texts[0]]
        return np.array(flat, np.int64).reshape(-1, self.num_texts)


@dataclass(frozen=True)
class EncodedSentences(EncodedTexts):
    """N texts that are only embedded; a batch has inputs of shape [B, T] and no targets."""

    def batch(self, rows: np.ndarray) -> tuple:
        return (self.inputs(rows),)


def encoded_groups(
    groups: Sequence[Sequence[str]],
    targets: np.ndarray,
    tokenizer: TextTokenizer,
    *,
    max_length: int,
    layout: type[EncodedSentenceGroups] = EncodedSentenceGroups,
) -> EncodedSentenceGroups:
    """Encodes N groups of G texts; a longer text loses the tokens at its end.

    Args:
        groups: The texts of each example.
        targets: The targets of the loss, [N] or [N, G - 2].
        tokenizer: The tokenizer of the model.
        max_length: Maximum number of tokens of a text, special tokens included.
        layout: The class of the result.
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
) -> EncodedSentences:
    """Encodes N texts; a longer text loses the tokens at its end."""
    ids = (_ids(texts, tokenizer),)
    lengths = np.minimum(num_tokens(ids, tokenizer.vocabulary), max_length)
    return EncodedSentences(ids, np.zeros(0), max_length, tokenizer.vocabulary, lengths)


def _ids(texts: Sequence[str], tokenizer: TextTokenizer) -> Ids:
    """Returns the token ids of texts; a text that occurs several times is tokenized once."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    ids = tokenizer.ids_batch(list(numbers))
    return [ids[numbers[text]] for text in texts]
