"""Draws the instances of all passes over a range of documents and assigns them to buckets."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tfrecords_tools.records.buckets import write_buckets
from tfrecords_tools.records.layout import Layout
from tfrecords_tools.records.objectives import OBJECTIVES, Draws, Instance, Span
from tfrecords_tools.records.splits import Range, documents_of
from tfrecords_tools.text.store import Tokens, TokenStore

_INSTANCES_TOGETHER = 1000
_SENTENCES_AT_ONCE = 32  # looked up together for a text from another document


@dataclass(frozen=True)
class FindInstances:
    """A job that writes the instances of those documents of a range that belong to the split."""

    documents: Range
    layout: Layout
    output: Path
    store: Path

    @property
    def size(self) -> int:
        return self.documents.end - self.documents.start

    def __call__(self, advance: Callable[[int], object]) -> None:
        store = TokenStore(self.store)
        generator = np.random.default_rng(self.layout.seeds_of_range(self.documents))
        instances = instances_of(
            self.layout,
            self.documents,
            store,
            random=Random(int(generator.integers(2**62))),
            text_of=partial(text_of, store),
        )
        write_buckets(
            self.output,
            _releasing(store, instances),
            num_buckets=self.layout.num_buckets,
            generator=generator,
        )
        advance(self.size)


def instances_of(
    layout: Layout,
    documents: Range,
    store: Tokens,
    *,
    random: Random,
    text_of: Callable[[int, float, int], Any],
) -> Iterator[Instance]:
    """Draws the instances of a range.

    `text_of(document, share, room)` returns a text of another document: a `Span`, or an object
    that represents one.
    """
    split, settings = layout.split, layout.settings
    own = [
        (number, bounds)
        for document, bounds in documents_of(store, documents)
        if (number := split.number(document)) is not None
    ]

    def other_text(number: int, room: int) -> Any:
        other = int(random.random() * (split.num_documents - 1))
        return text_of(split.document(other + (other >= number)), random.random(), room)

    draws = Draws(
        random,
        settings.max_length,
        settings.short_sequence_rate,
        other_text,
        settings.schema.is_packed,
        layout.num_separators,
    )
    for _ in range(layout.passes):
        yield from OBJECTIVES[settings.objective].instances(own, draws)


def _releasing(store: TokenStore, instances: Iterable[Instance]) -> Iterator[Instance]:
    """Yields the instances and regularly releases the memory of the store.

    Each text of another document leaves about 64 kB of the store in memory.
    """
    for number, instance in enumerate(instances):
        yield instance
        if number % _INSTANCES_TOGETHER == 0:
            store.release()


def text_of(store: Tokens, document: int, share: float, room: int) -> Span:
    """Returns the span of one or more sentences of a document that fill `room` tokens.

    Args:
        store: The tokens.
        document: The index of the document.
        share: The part of the document's sentences that precedes the text, in [0, 1).
        room: The number of tokens to reach. The text is shorter if the document ends.
    """
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
