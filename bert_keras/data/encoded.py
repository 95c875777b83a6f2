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
FEWEST_COLUMNS = 16  # the smallest number of columns of a batch with JAX


class Encoded(abc.ABC):
    """N encoded rows, one or more for each example; `batch` builds padded arrays."""

    lengths: np.ndarray  # int64 [N], the number of tokens of each row with special tokens

    @property
    def num_cut(self) -> int:
        """The number of examples that are cut because they exceed the maximum length."""
        return 0

    @property
    def examples(self) -> np.ndarray:
        """The index of the example of each row, int64 [N]."""
        return np.arange(len(self))

    def __len__(self) -> int:
        return len(self.lengths)

    @abc.abstractmethod
    def batch(self, rows: np.ndarray) -> tuple:
        """Returns (inputs, targets, weights) of the given rows, int [B].

        Rows without targets give (inputs,), and rows without weights (inputs, targets).
        """

    def num_columns(self, rows: np.ndarray) -> int:
        """Returns the columns of a batch: the length of the longest row, or more with JAX."""
        return num_columns(int(self.lengths[rows].max()), int(self.lengths.max()))

    def shuffled_batches(self, *, batch_size: int, seed: int) -> Iterator[np.ndarray]:
        """Yields the rows of endless training batches; see `length_grouped_batches`."""
        return length_grouped_batches(self.lengths, batch_size=batch_size, seed=seed)


@dataclass(frozen=True, kw_only=True)
class EncodedTexts(Encoded):
    """N examples of one sequence each, or of G sequences that follow each other.

    A batch has inputs of shape [B, T], or [B, G, T] if G is above 1. A sequence that is too long
    loses tokens at the end of its longer text.
    """

    texts: tuple[Sequence[Sequence[int]], ...]  # token ids of first texts, and maybe second texts
    targets: np.ndarray | None = None  # [N] or [N, num_labels], or None if there is no loss
    weights: np.ndarray | None = None  # [N], the weight of each row in the loss
    max_length: int  # maximum number of tokens of a sequence, special tokens included
    vocabulary: Vocabulary
    num_sequences: int = 1  # G

    @cached_property
    def full_lengths(self) -> np.ndarray:
        """The number of tokens of each example's longest sequence before it is cut, int64 [N]."""
        # K texts of each of N * G sequences.
        lengths_KS = np.array([[len(ids) for ids in text] for text in self.texts], np.int64)
        lengths_S = lengths_KS.sum(axis=0) + self.vocabulary.num_specials(len(self.texts))
        return lengths_S.reshape(-1, self.num_sequences).max(axis=1)

    @property
    def num_cut(self) -> int:
        return int((self.full_lengths > self.max_length).sum())

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.minimum(self.full_lengths, self.max_length)

    def batch(self, rows: np.ndarray) -> tuple:
        sequences_BG = rows[:, None] * self.num_sequences + np.arange(self.num_sequences)
        texts = [[text[index] for index in sequences_BG.ravel().tolist()] for text in self.texts]
        limits = {"max_length": self.max_length, "choose_length": num_columns}
        inputs = pack(*texts, vocabulary=self.vocabulary, **limits)
        if self.num_sequences > 1:
            shape = (*sequences_BG.shape, -1)
            inputs = {name: array.reshape(shape) for name, array in inputs.items()}
        return inputs, *(each[rows] for each in (self.targets, self.weights) if each is not None)


def print_num_truncated(*parts: Encoded, max_length: int) -> None:
    """Prints on stderr how many texts are truncated, if there are any."""
    if num_cut := sum(each.num_cut for each in parts):
        found = f"{num_cut:,} of {sum(map(len, parts)):,} texts have more than {max_length} tokens"
        print(f"{found}; their ends were cut; a larger max_length keeps them", file=sys.stderr)


def num_columns(longest: int, limit: int) -> int:
    """Returns the columns of a batch whose longest row has `longest` tokens."""
    keras = sys.modules.get("keras")  # a server without it has no JAX either
    if keras is None or keras.config.backend() != "jax":
        return longest
    # XLA compiles each shape. At most eight occur: `limit` and, from `limit` / 8 on, the powers of
    # two and the numbers midway between them.
    least = max(FEWEST_COLUMNS, limit // 8, longest)
    power = 1 << (least - 1).bit_length()
    return min(limit, power if least > power * 3 // 4 else power * 3 // 4)


def length_grouped_batches(
    lengths: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Yields endless shuffled batches of row indices, int64 [B], with each row once per epoch.

    The order of an epoch depends only on the seed and the index of the epoch. One batch of an epoch
    may be smaller.
    """
    for epoch in itertools.count():
        random = np.random.default_rng((seed, epoch))
        rows = np.concatenate(_sort_in_pools(lengths, batch_size=batch_size, random=random))
        batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        for index in random.permutation(len(batches)):
            yield batches[index]


def distinct_batches(
    lengths: np.ndarray, texts_NG: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[np.ndarray]:
    """Same as `length_grouped_batches`, but no two rows of a batch have a text in common.

    A row that has a text in common with a batch moves to a later batch. The rows of batches that
    are not full move to the next pool. At the end of an epoch, such batches stay smaller.

    Args:
        lengths: int [N], the number of tokens of each row.
        texts_NG: int, an id for each text of each row; equal texts have equal ids.
    """
    for epoch in itertools.count():
        random = np.random.default_rng((seed, epoch))
        batches, incomplete = [], np.zeros(0, np.int64)
        for pool in _sort_in_pools(lengths, batch_size=batch_size, random=random):
            rows = np.concatenate([incomplete, pool])
            rows = rows[np.argsort(-lengths[rows], kind="stable")]
            parts = _divide_distinct(rows, texts_NG, batch_size=batch_size)
            batches += [part for part in parts if len(part) == batch_size]
            rest = [part for part in parts if len(part) < batch_size]
            incomplete = np.array([row for part in rest for row in part], np.int64)
        batches += _divide_distinct(incomplete, texts_NG, batch_size=batch_size)
        for index in random.permutation(len(batches)):
            yield np.array(batches[index])


def _sort_in_pools(
    lengths: np.ndarray, *, batch_size: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Divides shuffled rows into pools, and sorts each pool by length, longest rows first."""
    rows, size = random.permutation(len(lengths)), batch_size * BATCHES_PER_POOL
    pools = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [pool[np.argsort(-lengths[pool], kind="stable")] for pool in pools]


def _divide_distinct(rows: np.ndarray, texts_NG: np.ndarray, *, batch_size: int) -> list[list[int]]:
    """Divides rows into batches of rows without common texts, in order as far as possible."""
    batches: list[list[int]] = []
    next_batch: dict[int, int] = {}  # text -> index after the last batch that contains it
    first = 0  # index of the first batch that is not full
    for row, texts in zip(rows.tolist(), texts_NG[rows].tolist(), strict=True):
        index = max(first, *(next_batch.get(text, 0) for text in texts))
        while index < len(batches) and len(batches[index]) == batch_size:
            index += 1
        if index == len(batches):
            batches.append([])
        batches[index].append(row)
        next_batch.update(dict.fromkeys(texts, index + 1))
        while first < len(batches) and len(batches[first]) == batch_size:
            first += 1
    return batches


def longest_first_batches(lengths: np.ndarray, *, batch_size: int) -> list[np.ndarray]:
    """Returns batches of row indices, int64 [B], that contain every row once, longest rows first.

    If the first batch fits in memory, all later batches fit too.
    """
    rows = np.argsort(-lengths, kind="stable")
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
