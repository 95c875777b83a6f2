"""Tokenizes units of the corpus into ranges of documents, and plans the records from their counts.

The output of `TokenizeUnit` is divided into the ranges that `FindInstances` reads, so that no
machine needs the folder of another one. Every worker receives the plan, which is small: 40 bytes a
range of documents and 8 bytes a held-out document.
"""

import atexit
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import reported_counts
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit
from tfrecords_tools.records.layout import Layout, layout_of
from tfrecords_tools.records.splits import Range, Split, documents_of, ranges_of, splits_of
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore
from tfrecords_tools.text.tokens import TokenizeUnit, counts_of


@dataclass(frozen=True)
class RangeTokens:
    """The part of a token store that a range needs; it is read like a `TokenStore`.

    Sentences and tokens are numbered within the unit, and so are documents, until
    `Corpus.renumbered`. If a document has several ranges, each also contains the following
    sentences, because a text that begins in the range may need them.
    """

    range: Range
    dtype: np.dtype
    starts: bytes  # int64, the first sentence of each document, and the end of the last one
    bounds: bytes  # int64, the first token of each sentence, and the end of the last one
    ids: bytes

    @classmethod
    def of(cls, store: TokenStore, documents: Range, *, longest: int) -> "RangeTokens":
        """Reads a range from a store; `longest` is the largest number of tokens of a text."""
        starts = store.documents(documents.first, documents.last)
        bounds = store.sentences(documents.start, min(starts[-1], documents.end + longest))
        return cls(
            documents,
            store.dtype,
            starts.tobytes(),
            bounds.tobytes(),
            store.tokens(bounds[0], bounds[-1]),
        )

    def documents(self, first: int, last: int) -> memoryview:
        """Same as `TokenStore.documents`."""
        return _indices(self.starts, first - self.range.first, last - self.range.first)

    def sentences(self, first: int, last: int) -> memoryview:
        """Same as `TokenStore.sentences`, but returns fewer if the range ends before `last`."""
        return _indices(self.bounds, first - self.range.start, last - self.range.start)

    def tokens(self, start: int, end: int) -> bytes:
        """Same as `TokenStore.tokens`."""
        size = self.dtype.itemsize
        first = memoryview(self.bounds).cast("q")[0]
        return self.ids[(start - first) * size : (end - first) * size]


@dataclass(frozen=True)
class UnitReport:
    """The counts, repairs and ranges of a tokenized unit."""

    unit: int
    counts: Counter
    repairs: Repairs
    num_sentences: int
    num_tokens: int
    ranges: tuple[Range, ...]


def tokenized_ranges(
    number: int, unit: Unit, *, vocabulary: Vocabulary, settings: BuildSettings
) -> Iterator[RangeTokens | UnitReport]:
    """Yields the ranges of a unit in order, and then its counts.

    Raises:
        InputError: A file cannot be read; see `TokenizeUnit`.
    """
    with tempfile.TemporaryDirectory() as work:
        path = local_vocabulary(vocabulary)
        job = TokenizeUnit(unit, Path(work) / "tokens", path, settings)
        job(lambda _: None)
        store = TokenStore(job.output)
        ranges = []
        for documents in ranges_of(store, [store.num_documents]):
            ranges.append(replace(documents, unit=number))
            yield RangeTokens.of(store, ranges[-1], longest=settings.max_length)
        counts, repairs = counts_of(job.output)
        yield UnitReport(
            number, counts, repairs, store.num_sentences, store.num_tokens, tuple(ranges)
        )


@cache
def local_vocabulary(vocabulary: Vocabulary) -> Path:
    """Writes the vocabulary to a temporary folder of this process and returns the path.

    A worker has no access to the original file.
    """
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_vocabulary(vocabulary, Path(folder))


def _indices(data: bytes, first: int, last: int) -> memoryview:
    return memoryview(data).cast("q")[first : last + 1]


class RangeTable(NamedTuple):
    """The R ranges of the corpus in order, int64 [R] each."""

    units: np.ndarray
    parts: np.ndarray
    first_documents: np.ndarray  # numbered over the corpus
    starts: np.ndarray  # first sentence, numbered within the unit
    ends: np.ndarray

    def indices_of(self, documents: np.ndarray, fractions: np.ndarray) -> np.ndarray:
        """Returns the ranges, int64 [n], with the sentences at `fractions` of `documents`."""
        last = np.searchsorted(self.first_documents, documents, side="right") - 1
        first = np.searchsorted(self.first_documents, self.first_documents[last])
        for n in np.flatnonzero(first < last):  # a document in several ranges
            start, end = self.starts[first[n]], self.ends[last[n]]
            sentence = start + int(fractions[n] * (end - start))
            starts = self.starts[first[n] : last[n] + 1]
            last[n] = first[n] - 1 + np.searchsorted(starts, sentence, side="right")
        return last


@dataclass(frozen=True)
class Corpus:
    """The counts of the whole corpus after all units are tokenized."""

    manifest_entries: dict
    splits: list[Split]
    num_sentences: int
    num_tokens: int
    first_documents: np.ndarray  # int64: of each unit
    ranges: RangeTable

    def renumbered(self, tokens: RangeTokens) -> RangeTokens:
        """Returns a range with documents numbered over the corpus instead of the unit."""
        documents, offset = tokens.range, int(self.first_documents[tokens.range.unit])
        first, last = documents.first + offset, documents.last + offset
        return replace(tokens, range=replace(documents, first=first, last=last))


@dataclass(frozen=True)
class Plan:
    """The distribution of the records of each split over buckets and shards."""

    corpus: Corpus
    layouts: tuple[Layout, ...]  # of each split


def corpus_of(units: Sequence[UnitReport], *, settings: BuildSettings) -> Corpus:
    """Combines the counts of all units, which may be in any order.

    Raises:
        InputError: The corpus has too little text.
    """
    units = sorted(units, key=attrgetter("unit"))
    counts = np.array([unit.counts["documents"] for unit in units], np.int64)
    first_documents = np.cumsum(counts) - counts
    rows = [
        (each.unit, each.part, first_documents[each.unit] + each.first, each.start, each.end)
        for unit in units
        for each in unit.ranges
    ]
    return Corpus(
        manifest_entries=reported_counts((unit.counts, unit.repairs) for unit in units),
        splits=splits_of(
            int(counts.sum()), held_out_rate=settings.held_out_rate, seed=settings.seed
        ),
        num_sentences=sum(unit.num_sentences for unit in units),
        num_tokens=sum(unit.num_tokens for unit in units),
        first_documents=first_documents,
        ranges=RangeTable(*np.array(rows, np.int64).reshape(-1, len(RangeTable._fields)).T),
    )


def held_out_size(tokens: RangeTokens, corpus: Corpus) -> tuple[int, int]:
    """Counts the sentences and tokens of the held-out documents of a range."""
    num_sentences = num_tokens = 0
    tokens = corpus.renumbered(tokens)
    for document, bounds in documents_of(tokens, tokens.range):
        if corpus.splits[0].number(document) is None:
            num_sentences += len(bounds) - 1
            num_tokens += bounds[-1] - bounds[0]
    return num_sentences, num_tokens


def plan_of(
    corpus: Corpus, held_out: tuple[int, int], *, settings: BuildSettings, num_separators: int
) -> Plan:
    """Plans the records of each split.

    Args:
        corpus: The counts of the corpus.
        held_out: The sum of `held_out_size` over all ranges.
        settings: The settings of the records.
        num_separators: The number of separators between two texts.

    Raises:
        InputError: The objective needs more documents.
    """
    train = corpus.num_sentences - held_out[0], corpus.num_tokens - held_out[1]
    layouts = (
        layout_of(split, *size, settings=settings, num_separators=num_separators)
        for split, size in zip(corpus.splits, (train, held_out), strict=False)
    )
    return Plan(corpus, tuple(layouts))
