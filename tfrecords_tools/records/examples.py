"""Finds the instances of all passes over a range of documents, and throws them into buckets."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tfrecords_tools.records.buckets import write_buckets
from tfrecords_tools.records.objectives import OBJECTIVES, Draws, Instance, Span
from tfrecords_tools.records.splits import Range, Split, documents_of
from tfrecords_tools.text.store import Tokens, TokenStore

_INSTANCES_TOGETHER = 1000
_SENTENCES_AT_ONCE = 32  # looked up together for a text of another document


@dataclass(frozen=True)
class Search:
    """What is looked for in the documents of a split."""

    split: Split
    objective: str
    passes: int
    max_length: int
    short_rate: float
    fills_records: bool
    num_separators: int

    def instances(
        self,
        store: Tokens,
        documents: Range,
        *,
        generator: np.random.Generator,
        text_of: Callable[[int, float, int], Any],
    ) -> Iterator[Instance]:
        """Those of a range.

        `text_of(document, share, room)` gives a text of another document: a `Span`, or whatever
        the caller puts in its place.
        """
        own = [
            (number, bounds)
            for document, bounds in documents_of(store, documents)
            if (number := self.split.number(document)) is not None
        ]
        random = Random(int(generator.integers(2**62)))
        draws = Draws(
            random,
            self.max_length,
            self.short_rate,
            lambda number, room: text_of(*other_place(self.split, number, random), room),
            self.fills_records,
            self.num_separators,
        )
        for _ in range(self.passes):
            yield from OBJECTIVES[self.objective].instances(own, draws)


@dataclass(frozen=True)
class FindInstances:
    """A job: the instances of the documents of a range that are of the split."""

    documents: Range
    search: Search
    output: Path
    store: Path
    dtype: np.dtype
    num_buckets: int
    seeds: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.documents.end - self.documents.start

    def __call__(self, advance: Callable[[int], object]) -> None:
        store = TokenStore(self.store, dtype=self.dtype)
        generator = np.random.default_rng(self.seeds)
        write_buckets(
            self.output,
            _let_go(
                store,
                self.search.instances(
                    store, self.documents, generator=generator, text_of=partial(text_of, store)
                ),
            ),
            num_buckets=self.num_buckets,
            generator=generator,
        )
        advance(self.size)


def _let_go(store: TokenStore, instances: Iterable[Instance]) -> Iterator[Instance]:
    """The same; every text of another document leaves some 64 kB of the store in memory."""
    for number, instance in enumerate(instances):
        yield instance
        if number % _INSTANCES_TOGETHER == 0:
            store.release()


def other_text(store: TokenStore, split: Split, number: int, room: int, random: Random) -> Span:
    """Whole sentences of another document of the split, at least one, until they fill `room`."""
    return text_of(store, *other_place(split, number, random), room)


def other_place(split: Split, number: int, random: Random) -> tuple[int, float]:
    """Another document of the split, as the store numbers it, and where in it: a share of it."""
    other = int(random.random() * (split.num_documents - 1))
    return split.document(other + (other >= number)), random.random()


def text_of(store: Tokens, document: int, share: float, room: int) -> Span:
    """Whole sentences, at least one, until they fill `room`, from that share of a document on."""
    start, end = store.documents(document, document + 1)
    first, count = start + int(share * (end - start)), _SENTENCES_AT_ONCE
    while True:
        places = store.sentences(first, min(end, first + count))
        last = bisect_left(places, places[0] + room, 1)
        if last < len(places):
            return places[0], places[last]
        if first + count >= end:
            return places[0], places[-1]
        count *= 2
