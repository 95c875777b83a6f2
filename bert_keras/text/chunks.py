"""Tokenizes many texts into flat ids, and tokenizes each distinct chunk of text only once.

A chunk is the text between two spaces. A part is a single ASCII punctuation mark of a chunk, or a
stretch without such marks. BERT's WordPiece tokenizes each part by itself, so its ids can be
cached. The words of a corpus repeat, so most of them are found in the cache. This is several times
as fast as tokenizing the whole text.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, count, islice
from typing import NamedTuple

import numpy as np

from bert_keras.text.packing import span_indices

MAX_CHUNKS = 400_000  # a larger cache is cleared; about 150 bytes each
# Marks the end of a text or chunk.
_END, _END_INDEX = "\n", 0
_SLOT_BITS = 19  # 10 MB
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd, of random bits
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)  # of lower bytes
_PARTS = re.compile(r"[!-/:-@\[-`{-~\n]|[^!-/:-@\[-`{-~\n]+")


class ChunkCache:
    """Caches the ids of chunks and of their parts.

    Args:
        tokenize: Returns the ids of each of the given parts. It is called with new parts only.
    """

    def __init__(self, tokenize: Callable[[Sequence[str]], Sequence[Sequence[int]]]):
        self._tokenize = tokenize
        self._clear()

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenizes texts.

        Returns:
            The ids of all texts, concatenated, int32 [M], and the number of ids of each text,
            int64 [N].
        """
        if len(self._chunks) > MAX_CHUNKS:
            self._clear()
        # One split of the joined texts is faster than one split of each text. `_END` separates the
        # texts.
        joined = f" {_END} ".join(texts)
        if joined.count(_END) >= max(len(texts), 1):
            return self.flat_ids([text.replace(_END, " ") for text in texts])
        try:
            indices = self._indices(_SplitText.of(joined.encode("utf-8", "surrogatepass")))
        except BaseException:  # the tables may have indices without ids
            self._clear()
            raise
        ids, lengths = self._chunks.flat_ids(indices)
        ends = np.append(np.cumsum(lengths)[indices == _END_INDEX], len(ids))
        return ids, np.diff(ends[: len(texts)], prepend=0)

    def _clear(self) -> None:
        self._chunks, self._parts, self._short_chunks = _IdTable(), _IdTable(), _ShortChunks()

    def _indices(self, split: "_SplitText") -> np.ndarray:
        """Returns the index of each chunk, int [N], after adding new chunks to the cache."""
        indices = self._short_chunks.indices(split)
        unknown = np.flatnonzero(indices < 0)
        indices[unknown], new = self._chunks.indices(split.chunks(unknown))
        self._short_chunks.add(split, unknown, indices[unknown])
        if new:
            self._add_chunks(new)
        return indices

    def _add_chunks(self, chunks: list[str]) -> None:
        """Tokenizes new chunks and adds their ids to the cache."""
        parts = _PARTS.findall(_END.join([*chunks, ""]))
        indices, new = self._parts.indices(parts)
        ids = self._tokenize(new)
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        self._parts.add(np.fromiter(chain.from_iterable(ids), np.int32, lengths.sum()), lengths)
        flat, lengths = self._parts.flat_ids(indices)
        ends = np.cumsum(lengths)[indices == _END_INDEX]
        self._chunks.add(flat, np.diff(ends, prepend=0))


class _SplitText(NamedTuple):
    """The N chunks of a text. The key of one of at most 15 bytes is its bytes and its length."""

    data: bytes  # the text as UTF-8
    starts: np.ndarray  # int64 [N], in bytes
    lengths: np.ndarray  # int64 [N], in bytes
    keys: np.ndarray  # uint64 [2,N]; the key of a longer chunk equals no key of a short one
    slots: np.ndarray  # int64 [N], hashes of `_SLOT_BITS` bits of the keys

    @classmethod
    def of(cls, data: bytes) -> "_SplitText":
        spaces = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(" "))
        starts = np.append(0, spaces + 1)
        lengths = np.append(spaces, len(data)) - starts
        # The eight bytes at each offset of the text and of 16 more bytes, as one number.
        words = np.ndarray(len(data) + 9, "<u8", data + bytes(16), strides=(1,))
        first = words[starts] & _MASKS[lengths.clip(max=8)]
        second = words[starts + 8] & _MASKS[(lengths - 8).clip(0, 7)]
        second |= lengths.clip(max=255).astype(np.uint64) << np.uint64(56)
        hashes = (first ^ second * _FACTORS[0]) * _FACTORS[1]
        slots = (hashes >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
        return cls(data, starts, lengths, np.stack([first, second]), slots)

    def chunks(self, numbers: np.ndarray) -> list[str]:
        """Returns the chunks with these numbers as strings."""
        starts, lengths = self.starts[numbers].tolist(), self.lengths[numbers].tolist()
        return [
            self.data[start : start + length].decode("utf-8", "surrogatepass")
            for start, length in zip(starts, lengths, strict=True)
        ]


class _ShortChunks:
    """The indices of most chunks of at most 15 bytes, in arrays.

    Finding them all at once takes a third of the time of a dictionary. The first chunk of a slot
    keeps it.
    """

    def __init__(self):
        self._keys = np.zeros((2, 1 << _SLOT_BITS), np.uint64)
        self._following = np.zeros(1 << _SLOT_BITS, np.int32)  # the index plus 1, or 0 if free

    def indices(self, split: _SplitText) -> np.ndarray:
        """Returns the index of each chunk, int32 [N], or -1 if it is not stored here."""
        is_found = (self._keys[:, split.slots] == split.keys).all(axis=0)
        return self._following[split.slots] * is_found - 1

    def add(self, split: _SplitText, numbers: np.ndarray, indices: np.ndarray) -> None:
        """Stores the indices of those chunks that are short and whose slot is free.

        Args:
            split: The text.
            numbers: The numbers of chunks in it, int64 [M].
            indices: The indices of these chunks, int64 [M].
        """
        slots = split.slots[numbers]
        is_stored = (split.lengths[numbers] <= 15) & (self._following[slots] == 0)
        slots = slots[is_stored]
        self._keys[:, slots] = split.keys[:, numbers[is_stored]]
        self._following[slots] = indices[is_stored] + 1


class _IdTable:
    """The ids of distinct texts. The index of a text counts from 1 in the order of arrival.

    Index 0 is `_END`, which has no ids.
    """

    def __init__(self):
        self._indices = defaultdict(count(1).__next__, {_END: _END_INDEX})
        self._ids = np.empty(0, np.int32)
        self._starts = self._lengths = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self._indices)

    def indices(self, texts: Sequence[str]) -> tuple[np.ndarray, list[str]]:
        """Returns the index of each text, int64 [N], and the new texts.

        The caller then passes the ids of the new texts to `add`.
        """
        num_known = len(self)
        indices = np.fromiter(map(self._indices.__getitem__, texts), np.int64, len(texts))
        new = islice(reversed(self._indices), len(self) - num_known)
        return indices, list(new)[::-1]

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds the ids of new texts.

        Args:
            ids: The ids of all new texts, concatenated, int32 [M].
            lengths: The number of ids of each new text, int64 [N].
        """
        starts = len(self._ids) + np.cumsum(lengths) - lengths
        self._ids = np.concatenate([self._ids, ids])
        self._starts = np.concatenate([self._starts, starts])
        self._lengths = np.concatenate([self._lengths, lengths])

    def flat_ids(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of the texts at `indices`, and the number of ids of each."""
        lengths = self._lengths[indices]
        return self._ids[span_indices(self._starts[indices], lengths)], lengths
