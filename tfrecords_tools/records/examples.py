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
from tfrecords_tools.records.objectives import RECORD_OBJECTIVES, Instance, PairChoices, TextSpan
from tfrecords_tools.records.splits import Range, documents_of
from tfrecords_tools.text.store import TokenSource, TokenStore

_RELEASE_INTERVAL = 1000  # instances
_LOOKUP_SENTENCES = 32  # read first for a text of another document


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
            text_at=partial(text_at, store),
        )
        write_buckets(
            self.output,
            _release_regularly(store, instances),
            num_buckets=self.layout.num_buckets,
            generator=generator,
        )
        advance(self.size)


def instances_of(
    layout: Layout,
    documents: Range,
    store: TokenSource,
    *,
    random: Random,
    text_at: Callable[[int, float, int], Any],
) -> Iterator[Instance]:
    """Draws the instances of a range.

    `text_at(document, fraction, num_tokens)` returns a text of another document: a `TextSpan`, or
    an object that represents one.
    """
    split, settings = layout.split, layout.settings
    split_documents = [
        (number, bounds)
        for document, bounds in documents_of(store, documents)
        if (number := split.number(document)) is not None
    ]

    def other_text(number: int, num_tokens: int) -> Any:
        other = int(random.random() * (split.num_documents - 1))
        return text_at(split.document(other + (other >= number)), random.random(), num_tokens)

    pair_choices = PairChoices(
        random,
        settings.max_length,
        settings.short_sequence_rate,
        other_text,
        settings.schema.is_packed,
        layout.num_separators,
    )
    for _ in range(layout.num_passes):
        yield from RECORD_OBJECTIVES[settings.objective].instances(split_documents, pair_choices)


def _release_regularly(store: TokenStore, instances: Iterable[Instance]) -> Iterator[Instance]:
    """Yields the instances and regularly releases the memory of the store.

    Each text of another document leaves about 64 kB of the store in memory.
    """
    for number, instance in enumerate(instances):
        yield instance
        if number % _RELEASE_INTERVAL == 0:
            store.release()


def text_at(store: TokenSource, document: int, fraction: float, num_tokens: int) -> TextSpan:
    """Returns the span of one or more sentences of a document that have `num_tokens` tokens.

    Args:
        store: The tokens.
        document: The index of the document.
        fraction: The part of the document's sentences that precedes the text, in [0, 1).
        num_tokens: The number of tokens to reach. The text is shorter if the document ends.
    """
    start, end = store.documents(document, document + 1)
    first, count = start + int(fraction * (end - start)), _LOOKUP_SENTENCES
    while True:
        starts = store.sentences(first, min(end, first + count))
        last = bisect_left(starts, starts[0] + num_tokens, 1)
        if last < len(starts):
            return starts[0], starts[last]
        if first + count >= end:
            return starts[0], starts[-1]
        count *= 2
