"""Encoded examples in memory, from which padded batches of rows of similar length are built."""

import abc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.data.buckets import length_grouped_batches, num_columns
from bert_keras.text.packing import pack
from bert_keras.text.vocab import Vocabulary

Ids = Sequence[Sequence[int]]  # the token ids of several texts


class Encoded(abc.ABC):
    """N encoded rows, one or more for each example; `batch` builds padded arrays."""

    lengths: np.ndarray  # int64 [N], the tokens of each row, special tokens included

    @property
    def num_cut(self) -> int:
        """The number of examples whose ends are cut because they exceed the maximum length."""
        return 0

    @property
    def examples(self) -> np.ndarray:
        """The number of the example of each row, int64 [N]."""
        return np.arange(len(self))

    def __len__(self) -> int:
        return len(self.lengths)

    @abc.abstractmethod
    def batch(self, rows: np.ndarray) -> tuple:
        """Returns (inputs, targets, weights), or fewer, of some rows, int [B], for `model.fit`.

        Each is an array or a dict, padded to `num_columns`. Targets without a label are 0.
        """

    def num_columns(self, rows: np.ndarray) -> int:
        """Returns the columns of a batch: the length of the longest row, or more with JAX."""
        return num_columns(int(self.lengths[rows].max()), int(self.lengths.max()))

    def shuffled_batches(self, *, batch_size: int, seed: int) -> Iterator[np.ndarray]:
        """Yields the rows of training batches without end; see `length_grouped_batches`."""
        return length_grouped_batches(self.lengths, batch_size=batch_size, seed=seed)


@dataclass(frozen=True, kw_only=True)
class EncodedTexts(Encoded):
    """N examples of one sequence each, or of G sequences that follow each other.

    A batch has inputs of shape [B, T], or [B, G, T] if G is above 1. A sequence that is too long
    loses tokens at the end of its longer text.
    """

    texts: tuple[Ids, ...]  # the token ids of the first, and of the second text of each sequence
    targets: np.ndarray | None = None  # of the loss, [N] or [N, num_labels]; None without a loss
    weights: np.ndarray | None = None  # of the rows in the loss, [N]
    max_length: int  # maximum number of tokens of a sequence, special tokens included
    vocabulary: Vocabulary
    num_sequences: int = 1  # G

    @cached_property
    def full_lengths(self) -> np.ndarray:
        """The tokens of the longest sequence of each example before it is cut, int64 [N]."""
        counts_KX = np.array([[len(ids) for ids in text] for text in self.texts], np.int64)
        counts_X = counts_KX.sum(axis=0) + self.vocabulary.num_specials(len(self.texts))
        return counts_X.reshape(-1, self.num_sequences).max(axis=1)

    @property
    def num_cut(self) -> int:
        return int((self.full_lengths > self.max_length).sum())

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.minimum(self.full_lengths, self.max_length)

    def batch(self, rows: np.ndarray) -> tuple:
        sequences_BG = rows[:, None] * self.num_sequences + np.arange(self.num_sequences)
        texts = [[text[number] for number in sequences_BG.ravel().tolist()] for text in self.texts]
        inputs = pack(
            *texts, vocabulary=self.vocabulary, max_length=self.max_length, num_columns=num_columns
        )
        if self.num_sequences > 1:
            shape = (*sequences_BG.shape, -1)
            inputs = {name: array.reshape(shape) for name, array in inputs.items()}
        others = (each[rows] for each in (self.targets, self.weights) if each is not None)
        return inputs, *others


def say_cut(*parts: Encoded, max_length: int) -> None:
    """Prints on stderr how many texts of all parts are cut, if there are any."""
    if num_cut := sum(each.num_cut for each in parts):
        print(
            f"{num_cut:,} of {sum(map(len, parts)):,} texts have more than {max_length} tokens; "
            "their ends were cut; a larger max_length keeps them",
            file=sys.stderr,
        )
