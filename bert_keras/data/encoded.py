"""Encoded examples in memory, from which padded batches of rows of similar length are built."""

import abc
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.text.packing import pack
from bert_keras.text.vocab import Vocabulary

# Shuffled examples are sorted by length within pools of this many batches.
BATCHES_PER_POOL = 50
FEWEST_COLUMNS = 16  # of a batch with JAX


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
        """Returns (inputs, targets, weights), or fewer, of some rows, int [B], for `model.fit`."""

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

    texts: tuple[Sequence[Sequence[int]], ...]  # ids of the first, and second text of each sequence
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
        limits = {"max_length": self.max_length, "num_columns": num_columns}
        inputs = pack(*texts, vocabulary=self.vocabulary, **limits)
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


def num_columns(longest: int, most: int) -> int:
    """Returns the columns of a batch whose longest row has `longest` tokens."""
    keras = sys.modules.get("keras")  # a server without it has no JAX either
    if keras is None or keras.config.backend() != "jax":
        return longest
    # XLA compiles each shape, so there are few.
    return min(most, max(FEWEST_COLUMNS, 1 << (longest - 1).bit_length()))


def length_grouped_batches(
    lengths: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Yields shuffled batches of row indices, int64 [B], without end, every row once an epoch.

    The order of an epoch depends only on the seed and the number of the epoch. The last batch of an
    epoch may be smaller.
    """
    for epoch in itertools.count():
        random = np.random.default_rng((seed, epoch))
        rows = np.concatenate(_sorted_pools(lengths, batch_size=batch_size, random=random))
        batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        for number in random.permutation(len(batches)):
            yield batches[number]


def distinct_batches(
    lengths: np.ndarray, texts_NG: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Same as `length_grouped_batches`, but no two rows of a batch have a text in common.

    A row that has a text in common with a batch moves to a later batch. Batches that this leaves
    incomplete get rows of the next pool, or end the epoch incomplete.

    Args:
        lengths: int [N], the tokens of each row.
        texts_NG: int, the numbers of the texts of each row.
    """
    for epoch in itertools.count():
        random = np.random.default_rng((seed, epoch))
        batches, incomplete = [], np.zeros(0, np.int64)
        for pool in _sorted_pools(lengths, batch_size=batch_size, random=random):
            rows = np.concatenate([incomplete, pool])
            rows = rows[np.argsort(-lengths[rows], kind="stable")]
            parts = _distinct_parts(rows, texts_NG, batch_size=batch_size)
            batches += [part for part in parts if len(part) == batch_size]
            rest = [part for part in parts if len(part) < batch_size]
            incomplete = np.array([row for part in rest for row in part], np.int64)
        batches += _distinct_parts(incomplete, texts_NG, batch_size=batch_size)
        for number in random.permutation(len(batches)):
            yield np.array(batches[number])


def _sorted_pools(
    lengths: np.ndarray, *, batch_size: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Divides shuffled rows into pools, and sorts each pool by length, longest rows first."""
    rows, size = random.permutation(len(lengths)), batch_size * BATCHES_PER_POOL
    pools = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [pool[np.argsort(-lengths[pool], kind="stable")] for pool in pools]


def _distinct_parts(rows: np.ndarray, texts_NG: np.ndarray, *, batch_size: int) -> list[list[int]]:
    """Divides rows into batches of rows without common texts, in order as far as possible."""
    batches: list[list[int]] = []
    next_batch: dict[int, int] = {}  # of each text, one past the last batch that contains it
    first = 0  # the first batch that is not full
    for row, texts in zip(rows.tolist(), texts_NG[rows].tolist(), strict=True):
        number = max(first, *(next_batch.get(text, 0) for text in texts))
        while number < len(batches) and len(batches[number]) == batch_size:
            number += 1
        if number == len(batches):
            batches.append([])
        batches[number].append(row)
        next_batch.update(dict.fromkeys(texts, number + 1))
        while first < len(batches) and len(batches[first]) == batch_size:
            first += 1
    return batches


def longest_first_batches(lengths: np.ndarray, *, batch_size: int) -> list[np.ndarray]:
    """Returns batches of row indices, int64 [B], that contain every row once, longest rows first.

    If the first batch fits in memory, all later batches fit too.
    """
    rows = np.argsort(-lengths, kind="stable")
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
