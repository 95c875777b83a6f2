"""Counts records that have the same text as another record, with bounded memory.

The text of a record is its tokens before masking, so records with different masks over the same
words count as equal. A text is stored as a 64-bit hash. If there are more than `MAX_TEXTS`, only
hashes that end in a zero bit are kept, then in two zero bits, and so on. A text is kept with all
its copies or not at all, so the rate of repeated texts in this sample is an unbiased estimate.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from bert_keras.data.schema import WEIGHTS_FEATURE

MAX_TEXTS = 1 << 20  # 16 bytes each


@dataclass
class Repeats:
    """Counts texts over batches; memory holds up to twice `max_texts` hashes."""

    max_texts: int = MAX_TEXTS
    sampled_bits: int = 0  # one of 2**sampled_bits texts is counted
    _texts: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    _counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    _pending: list[np.ndarray] = field(default_factory=list)
    _num_pending: int = 0

    def add(self, texts: np.ndarray) -> None:
        """Adds the hashes of a batch, uint64 [B]; see `text_hashes`."""
        texts = texts[_ends_in_zeros(texts, self.sampled_bits)]
        self._pending.append(texts)
        self._num_pending += len(texts)
        if self._num_pending >= self.max_texts:
            self._merge()

    def counts(self) -> tuple[int, int]:
        """Returns the number of repeated records and the number of sampled records."""
        self._merge()
        return int((self._counts - 1).sum()), int(self._counts.sum())

    def shared_with(self, other: "Repeats") -> tuple[int, int]:
        """Compares the texts with the texts of `other`.

        Returns:
            The number of these records whose text also occurs in `other`, and the number of these
            records, both within the common sample.
        """
        self._merge()
        other._merge()
        bits = max(self.sampled_bits, other.sampled_bits)
        is_sampled = _ends_in_zeros(self._texts, bits)
        is_shared = is_sampled & np.isin(self._texts, other._texts, assume_unique=True)
        return int(self._counts[is_shared].sum()), int(self._counts[is_sampled].sum())

    def _merge(self) -> None:
        texts = np.concatenate([self._texts, *self._pending])
        counts = np.ones(len(texts), np.int64)
        counts[: len(self._counts)] = self._counts
        self._pending, self._num_pending = [], 0
        self._texts, indices = np.unique(texts, return_inverse=True)
        self._counts = np.bincount(indices, counts, len(self._texts)).astype(np.int64)
        while len(self._texts) > self.max_texts:
            self.sampled_bits += 1
            is_sampled = _ends_in_zeros(self._texts, self.sampled_bits)
            self._texts, self._counts = self._texts[is_sampled], self._counts[is_sampled]


def text_hashes(features: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the hashes of the texts of records, uint64 [B], which do not depend on the masks."""
    ids = features["input_ids"]
    if WEIGHTS_FEATURE in features:
        is_predicted = features[WEIGHTS_FEATURE] > 0
        rows = np.nonzero(is_predicted)[0]
        ids = ids.copy()
        ids[rows, features["masked_lm_positions"][is_predicted]] = features["masked_lm_ids"][
            is_predicted
        ]
    hashes = ids.astype(np.uint64) @ _factors(ids.shape[1])
    # Mixes the high bits into the low bits, because the low bits choose the sample.
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(0xD6E8FEB86659FD93)
    return hashes ^ (hashes >> np.uint64(32))


@cache
def _factors(length: int) -> np.ndarray:
    """Returns a constant odd 64-bit factor for each position."""
    return np.random.default_rng(0).integers(2**64, size=length, dtype=np.uint64) | np.uint64(1)


def _ends_in_zeros(hashes: np.ndarray, bits: int) -> np.ndarray:
    return (hashes & np.uint64((1 << bits) - 1)) == 0
