"""Many texts come in; their ids go out flat, each chunk of text between spaces tokenised once.

WordPiece as BERT has it never looks across a space or an ASCII punctuation mark, so a corpus, whose
words repeat, is mostly a matter of looking them up: several times the speed of tokenising it all.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

MOST_CHUNKS = 400_000  # then the memory starts anew; about 150 bytes each
_PARTS = re.compile(r"[!-/:-@\[-`{-~]|[^!-/:-@\[-`{-~]+")


class ChunkMemory:
    """Remembers the ids of chunks; `tokenize` gives those of texts that it has not seen."""

    def __init__(self, tokenize: Callable[[Sequence[str]], list[list[int]]]):
        self._tokenize = tokenize
        self._forget()

    def flat_ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids one after the other, int32 [M], and how many each text has, int64 [N]."""
        chunks = [text.split(" ") for text in texts]
        num_chunks = np.fromiter(map(len, chunks), np.int64, len(chunks))
        chunks = list(chain.from_iterable(chunks))
        if len(self._numbers) > MOST_CHUNKS:
            self._forget()
        new = set(chunks).difference(self._numbers)
        if new:
            self._learn(sorted(new))
        numbers = np.fromiter(map(self._numbers.__getitem__, chunks), np.int64, len(chunks))
        lengths = self._lengths[numbers]
        ends = np.cumsum(lengths)
        places = np.repeat(self._starts[numbers] - (ends - lengths), lengths)
        ids = self._ids[places + np.arange(len(places))]
        text_ends = np.concatenate([[0], ends])[np.cumsum(num_chunks)]
        return ids, np.diff(text_ends, prepend=0)

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._parts: dict[str, list[int]] = {}
        self._ids = np.empty(0, np.int32)
        self._starts = self._lengths = np.empty(0, np.int64)

    def _learn(self, chunks: list[str]) -> None:
        parts = [_PARTS.findall(chunk) for chunk in chunks]
        known = self._parts
        new = list(set(chain.from_iterable(parts)).difference(known))
        known.update(zip(new, self._tokenize(new), strict=True))
        ids = [list(chain.from_iterable(map(known.__getitem__, each))) for each in parts]
        first = len(self._numbers)
        self._numbers.update(zip(chunks, range(first, first + len(chunks)), strict=True))
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        starts = len(self._ids) + np.cumsum(lengths) - lengths
        flat = np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))
        self._ids = np.concatenate([self._ids, flat])
        self._starts = np.concatenate([self._starts, starts])
        self._lengths = np.concatenate([self._lengths, lengths])
