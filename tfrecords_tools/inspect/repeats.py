"""Counts records that have the same text as another record, with bounded memory.

The text of a record is its tokens before masking, so records with different masks over the same
words count as equal. A text is stored as a 64-bit hash. If there are more than `MOST_TEXTS`, only
hashes that end in a zero bit are kept, then in two zero bits, and so on. A text is kept with all
its copies or not at all, so the share of repeated texts in this sample is an unbiased estimate.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from bert_keras.data.schema import WEIGHTS_FEATURE

MOST_TEXTS = 1 << 20  # 16 bytes each


@dataclass
class Repeats:
    """Counts texts over batches; memory holds up to twice `most_texts` hashes."""

    most_texts: int = MOST_TEXTS
    sampled_bits: int = 0  # one of 2**sampled_bits texts is counted
    _texts: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    _counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    _waiting: list[np.ndarray] = field(default_factory=list)
    _num_waiting: int = 0

    def add(self, texts: np.ndarray) -> None:
        """Adds the hashes of a batch, uint64 [B]; see `text_numbers`."""
        texts = texts[_ends_in_zeros(texts, self.sampled_bits)]
        self._waiting.append(texts)
        self._num_waiting += len(texts)
        if self._num_waiting >= self.most_texts:
            self._merge()

    def counts(self) -> tuple[int, int]:
        """Returns the number of repeated records and the number of sampled records."""
        self._merge()
        return int((self._counts - 1).sum()), int(self._counts.sum())

    def shared_with(self, other: "Repeats") -> tuple[int, int]:
        """Compares the texts with the texts of `other`.

        Returns:
            The number of own records whose text also occurs in `other`, and the number of own
            records, both within the common sample.
        """
        self._merge()
        other._merge()
        bits = max(self.sampled_bits, other.sampled_bits)
        own = _ends_in_zeros(self._texts, bits)
        shared = own & np.isin(self._texts, other._texts, assume_unique=True)
        return int(self._counts[shared].sum()), int(self._counts[own].sum())

    def _merge(self) -> None:
        texts = np.concatenate([self._texts, *self._waiting])
        counts = np.ones(len(texts), np.int64)
        counts[: len(self._counts)] = self._counts
        self._waiting, self._num_waiting = [], 0
        self._texts, places = np.unique(texts, return_inverse=True)
        self._counts = np.bincount(places, counts, len(self._texts)).astype(np.int64)
        while len(self._texts) > self.most_texts:
            self.sampled_bits += 1
            kept = _ends_in_zeros(self._texts, self.sampled_bits)
            self._texts, self._counts = self._texts[kept], self._counts[kept]


def text_numbers(features: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the hashes of the texts of records, uint64 [B], which do not depend on the masks."""
    ids = features["input_ids"]
    if WEIGHTS_FEATURE in features:
        rows, slots = np.nonzero(features[WEIGHTS_FEATURE] > 0)
        ids = ids.copy()
        ids[rows, features["masked_lm_positions"][rows, slots]] = features["masked_lm_ids"][
            rows, slots
        ]
    numbers = ids.astype(np.uint64) @ _factors(ids.shape[1])
    # Mixes the high bits into the low bits, because the low bits choose the sample.
    numbers ^= numbers >> np.uint64(32)
    numbers *= np.uint64(0xD6E8FEB86659FD93)
    return numbers ^ (numbers >> np.uint64(32))


@cache
def _factors(length: int) -> np.ndarray:
    """Returns a constant odd 64-bit factor for each position."""
    return np.random.default_rng(0).integers(2**64, size=length, dtype=np.uint64) | np.uint64(1)


def _ends_in_zeros(numbers: np.ndarray, bits: int) -> np.ndarray:
    return (numbers & np.uint64((1 << bits) - 1)) == 0
