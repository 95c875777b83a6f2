"""Encodes texts and pairs of texts, as one or several sequences of each example."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.data.buckets import num_columns
from bert_keras.downstream.task import Encoded
from bert_keras.text.packing import pack
from bert_keras.text.vocab import Vocabulary

Ids = Sequence[Sequence[int]]  # the token ids of several texts


@dataclass(frozen=True, kw_only=True)
class EncodedTexts(Encoded):
    """N examples of one sequence each, or of G sequences that follow each other.

    A batch has inputs of shape [B, T], or [B, G, T] if G is above 1. A sequence that is too long
    loses tokens at the end of its longer text.
    """

    texts: tuple[Ids, ...]  # the token ids of the first, and of the second text of each sequence
    targets: np.ndarray | None = None  # of the loss, [N] or [N, num_labels]; None without a loss
    max_length: int  # maximum number of tokens of a sequence, special tokens included
    vocabulary: Vocabulary
    num_sequences: int = 1  # G

    @cached_property
    def full_lengths(self) -> np.ndarray:
        """The tokens of the longest sequence of each example before it is cut, int64 [N]."""
        counts_KX = np.array([[len(ids) for ids in text] for text in self.texts], np.int64)
        counts_X = counts_KX.sum(axis=0) + self.vocabulary.num_specials(len(self.texts))
        return counts_X.reshape(-1, self.num_sequences).max(axis=1)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.minimum(self.full_lengths, self.max_length)

    def batch(self, rows: np.ndarray) -> tuple:
        sequences_BG = rows[:, None] * self.num_sequences + np.arange(self.num_sequences)
        texts = [[text[number] for number in sequences_BG.ravel().tolist()] for text in self.texts]
        inputs = pack(
            *texts,
            vocabulary=self.vocabulary,
            max_length=self.max_length,
            num_columns=num_columns,
        )
        if self.num_sequences > 1:
            shape = (*sequences_BG.shape, -1)
            inputs = {name: array.reshape(shape) for name, array in inputs.items()}
        return (inputs,) if self.targets is None else (inputs, self.targets[rows])
