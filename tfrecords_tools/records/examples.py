"""Draws the instances of all passes over a range of documents and stores them in random buckets.

A file of buckets contains the index at which each bucket begins, and then the spans of all buckets,
int64 [n,4]: number of the instance in the file, label, start and end in the store. Instances that
are assigned to buckets independently and shuffled within each bucket are shuffled as a whole (Rao
1961; Sandelius 1962), although they are never in memory together.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tfrecords_tools.records.layout import Layout, Range, documents_of
from tfrecords_tools.records.objectives import RECORD_OBJECTIVES, Instance, PairChoices, TextSpan
from tfrecords_tools.text.store import INDEX_DTYPE, TokenSource, TokenStore

_RELEASE_INTERVAL = 1000  # instances


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

    def __call__(self) -> dict[str, Any]:
        store = TokenStore(self.store)
        generator = np.random.default_rng(self.layout.seeds_of_range(self.documents))
        random = Random(int(generator.integers(2**62)))
        instances = instances_of(
            self.layout, self.documents, store, random=random, text_at=partial(text_at, store)
        )
        flat: list[int] = []
        for number, (spans, label) in enumerate(instances):
            for span in spans:
                flat += (number, label, *span)
            if number % _RELEASE_INTERVAL == 0:
                store.release()  # each text of another document leaves 64 kB in memory
        table = np.array(flat, INDEX_DTYPE).reshape(-1, 4)
        num_buckets, num_instances = self.layout.num_buckets, table[-1, 0] + 1 if len(table) else 0
        buckets = generator.integers(num_buckets, size=num_instances)[table[:, 0]]
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(1, num_buckets))
        return {"sizes": write_buckets(self.output, np.split(table[order], ends))}


def instances_of(
    layout: Layout,
    documents: Range,
    store: TokenSource,
    *,
    random: Random,
    text_at: Callable[[int, float, int], Any],
) -> Iterator[Instance]:
    """Draws the instances of a range; `text_at` is the function below or one that stands for it."""
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


def text_at(store: TokenSource, document: int, fraction: float, num_tokens: int) -> TextSpan:
    """Returns the span of one or more sentences of a document that have `num_tokens` tokens.

    A `fraction` of the document's sentences precedes the text, which is shorter if the document
    ends.
    """
    start, end = store.documents(document, document + 1)
    starts = store.sentences(start + int(fraction * (end - start)), end)
    last = min(bisect_left(starts, starts[0] + num_tokens, 1), len(starts) - 1)
    return starts[0], starts[last]


class SpanTable(NamedTuple):
    """Spans of instances, int64 [n] each; the spans of an instance are adjacent."""

    instances: np.ndarray  # 0, 1, ... in the order of the table
    labels: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def write_buckets(path: Path, tables: Sequence[np.ndarray]) -> list[int]:
    """Writes the spans of each bucket, int64 [n,4], and returns their numbers."""
    sizes = list(map(len, tables))
    with path.open("wb") as file:
        for array in (np.cumsum([0, *sizes]), *tables):
            file.write(array.astype(INDEX_DTYPE).tobytes())
    return sizes


def read_bucket(paths: Iterable[Path], *, num_buckets: int, bucket: int) -> SpanTable:
    """Returns the instances of one bucket from all files, in their order."""
    tables, num_before = [np.empty((0, 4), INDEX_DTYPE)], 0
    for path in paths:
        with path.open("rb") as file:
            file.seek(bucket * INDEX_DTYPE.itemsize)
            start, end = np.fromfile(file, INDEX_DTYPE, 2).tolist()
            file.seek(((num_buckets + 1) + start * 4) * INDEX_DTYPE.itemsize)
            table = np.fromfile(file, INDEX_DTYPE, (end - start) * 4).reshape(-1, 4)
        if len(table):
            is_next = np.diff(table[:, 0], prepend=table[0, 0]) != 0
            table[:, 0] = num_before + np.cumsum(is_next)
            num_before = int(table[-1, 0]) + 1
            tables.append(table)
    return SpanTable(*np.concatenate(tables).T)
