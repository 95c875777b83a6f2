"""Tokenizes many texts into flat ids, each distinct chunk of text between spaces only once.

BERT's WordPiece never looks across a space or an ASCII punctuation mark. The words of a corpus
repeat, so that most of them are looked up: several times the speed of tokenizing all text.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, count, islice

import numpy as np

MOST_CHUNKS = 400_000  # then the memory starts anew; about 150 bytes each
_END, _END_NUMBER = "\n", 0
_PARTS = re.compile(r"[!-/:-@\[-`{-~\n]|[^!-/:-@\[-`{-~\n]+")


class ChunkMemory:
    """Remembers the ids of chunks; `tokenize` gives those of parts that it has not seen.

    A part is a single ASCII punctuation mark, or text without any and without spaces.
    """

    def __init__(self, tokenize: Callable[[Sequence[str]], Sequence[Sequence[int]]]):
        self._tokenize = tokenize
        self._forget()

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids one after the other, int32 [M], and how many each text has, int64 [N]."""
        if len(self._chunks) > MOST_CHUNKS:
            self._forget()
        # Texts are cut together, for there may be many short ones; an end stands between them.
        joined = f" {_END} ".join(texts)
        if joined.count(_END) >= max(len(texts), 1):
            return self.flat_ids([text.replace(_END, " ") for text in texts])
        numbers, new = self._chunks.numbers(joined.split(" "))
        if new:
            self._learn(new)
        ids, lengths = self._chunks.flat_ids(numbers)
        ends = np.append(np.cumsum(lengths)[numbers == _END_NUMBER], len(ids))
        return ids, np.diff(ends[: len(texts)], prepend=0)

    def _forget(self) -> None:
        self._chunks, self._parts = _Ids(), _Ids()

    def _learn(self, chunks: list[str]) -> None:
        """All are cut into parts at once; an end stands behind each."""
        parts = _PARTS.findall(_END.join([*chunks, ""]))
        numbers, new = self._parts.numbers(parts)
        ids = self._tokenize(new)
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        self._parts.add(np.fromiter(chain.from_iterable(ids), np.int32, lengths.sum()), lengths)
        flat, lengths = self._parts.flat_ids(numbers)
        ends = np.cumsum(lengths)[numbers == _END_NUMBER]
        self._chunks.add(flat, np.diff(ends, prepend=0))


class _Ids:
    """Ids of texts that are numbered as they come; first of all the end, which has no ids."""

    def __init__(self):
        self._numbers = defaultdict(count(1).__next__, {_END: _END_NUMBER})
        self._ids = np.empty(0, np.int32)
        self._starts = self._lengths = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, texts: Sequence[str]) -> tuple[np.ndarray, list[str]]:
        """The number of each, int64 [N], and those texts that are new, to be added next."""
        num_known = len(self)
        numbers = np.fromiter(map(self._numbers.__getitem__, texts), np.int64, len(texts))
        new = islice(reversed(self._numbers), len(self) - num_known)
        return numbers, list(new)[::-1]

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """The ids of the new texts, one after the other, and how many each has."""
        starts = len(self._ids) + np.cumsum(lengths) - lengths
        self._ids = np.concatenate([self._ids, ids])
        self._starts = np.concatenate([self._starts, starts])
        self._lengths = np.concatenate([self._lengths, lengths])

    def flat_ids(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of these texts, one after the other, and how many each has."""
        lengths = self._lengths[numbers]
        places = np.repeat(self._starts[numbers] - (np.cumsum(lengths) - lengths), lengths)
        places += np.arange(len(places))
        return self._ids[places], lengths
