"""Splits the documents of a token store into `train` and `held-out`, and into ranges for jobs."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bert_keras.errors import InputError, counted
from tfrecords_tools.text.store import TokenSource, TokenStore

TRAIN, HELD_OUT = "train", "held-out"
SENTENCES_PER_RANGE = 20_000


@dataclass(frozen=True)
class Range:
    """Adjacent documents [first, last) of one unit, or sentences [start, end) of one document."""

    unit: int
    part: int  # number of the range within the unit
    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True)
class Split:
    """The documents of a split, numbered from 0 to `num_documents - 1`."""

    name: str
    num_documents: int
    held_out: array  # the indices in the store, ascending, of all held-out documents

    def number(self, document: int) -> int | None:
        """Returns the number within the split of a document of the store, or None if not in it."""
        num_before = bisect_left(self.held_out, document)
        is_held_out = num_before < len(self.held_out) and self.held_out[num_before] == document
        if is_held_out != (self.name == HELD_OUT):
            return None
        return num_before if is_held_out else document - num_before

    def document(self, number: int) -> int:
        """Returns the index in the store of document `number` of the split."""
        if self.name == HELD_OUT:
            return self.held_out[number]
        # held_out[k] - k training documents precede the k-th held-out document
        ranks = range(len(self.held_out))
        return number + bisect_right(ranks, number, key=lambda rank: self.held_out[rank] - rank)


def splits_of(num_documents: int, *, held_out_rate: float, seed: int) -> list[Split]:
    """Returns the split `train` and, if the rate is positive, `held-out`.

    The seed chooses the held-out documents.

    Raises:
        InputError: There are too few documents to hold some out.
    """
    if held_out_rate == 0:
        return [Split(TRAIN, num_documents, array("q"))]
    count = max(2, round(held_out_rate * num_documents))
    if num_documents - count < 2:
        raise InputError(
            f"the corpus has {counted(num_documents, 'document')}, too few to hold some out: each "
            "split needs two; put blank lines between documents or add files"
        )
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.choice(num_documents, count, replace=False, shuffle=False))
    held_out = array("q", chosen.astype("<i8").tobytes())
    return [Split(TRAIN, num_documents - count, held_out), Split(HELD_OUT, count, held_out)]


def split_size(split: Split, store: TokenStore) -> tuple[int, int]:
    """Returns the number of sentences and of tokens of a split."""
    num_sentences = num_tokens = 0
    for document in split.held_out:
        start, end = store.documents(document, document + 1)
        num_sentences += end - start
        starts = store.sentences(start, end)
        num_tokens += starts[-1] - starts[0]
    if split.name == HELD_OUT:
        return num_sentences, num_tokens
    return store.num_sentences - num_sentences, store.num_tokens - num_tokens


def ranges_of(store: TokenStore, unit_documents: Iterable[int]) -> Iterator[Range]:
    """Yields the ranges of all documents.

    Args:
        store: The tokens.
        unit_documents: The number of documents of each unit of the corpus.
    """
    first = 0
    for unit, count in enumerate(unit_documents):
        for part, bounds in enumerate(_ranges(store, first, first + count)):
            yield Range(unit, part, *bounds)
        first += count


def _ranges(store: TokenStore, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (first, last, start, end) of ranges of up to about `SENTENCES_PER_RANGE` sentences.

    A longer document has ranges of its own.
    """
    range_start = None
    starts = store.documents(first, last)
    for number, (start, end) in enumerate(pairwise(starts), first):
        if range_start is None:
            first, range_start = number, start
        if start - range_start >= SENTENCES_PER_RANGE or end - start > SENTENCES_PER_RANGE:
            if number > first:
                yield first, number, range_start, start
            first, range_start = number, start
        if end - start > SENTENCES_PER_RANGE:
            for part in range(start, end, SENTENCES_PER_RANGE):
                yield number, number + 1, part, min(part + SENTENCES_PER_RANGE, end)
            range_start = None
    if range_start is not None:
        yield first, last, range_start, end


def documents_of(store: TokenSource, documents: Range) -> Iterator[tuple[int, list[int]]]:
    """Yields (number, bounds) of each document of a range.

    The bounds are token indices: the start of each sentence, and the end of the last one.
    """
    starts = store.documents(documents.first, documents.last).tolist()
    starts[0], starts[-1] = documents.start, documents.end
    bounds = store.sentences(documents.start, documents.end).tolist()
    for number, (start, end) in enumerate(pairwise(starts), documents.first):
        yield number, bounds[start - documents.start : end - documents.start + 1]
