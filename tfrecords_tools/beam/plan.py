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
from tfrecords_tools.build import told_of
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

    Sentences and tokens are numbered within the unit, and documents too until they are `placed`. If
    a document has several ranges, each also contains the following sentences that a text may need
    that begins in the range.
    """

    range: Range
    dtype: np.dtype
    starts: bytes  # int64, the first sentence of each document, and the end of the last one
    places: bytes  # int64, the first token of each sentence, and the end of the last one
    ids: bytes

    @classmethod
    def of(cls, store: TokenStore, documents: Range, *, longest: int) -> "RangeTokens":
        """Reads a range from a store; `longest` is the largest number of tokens of a text."""
        starts = store.documents(documents.first, documents.last)
        places = store.sentences(documents.start, min(starts[-1], documents.end + longest))
        return cls(
            documents,
            store.dtype,
            starts.tobytes(),
            places.tobytes(),
            store.pieces(places[0], places[-1]),
        )

    def placed(self, first_document: int) -> "RangeTokens":
        """Returns the range with documents numbered over the corpus.

        Args:
            first_document: The number of the first document of the unit.
        """
        own = self.range
        moved = replace(own, first=own.first + first_document, last=own.last + first_document)
        return replace(self, range=moved)

    def documents(self, first: int, last: int) -> memoryview:
        return _places(self.starts, first - self.range.first, last - self.range.first)

    def sentences(self, first: int, last: int) -> memoryview:
        """Same as `TokenStore.sentences`, but returns fewer if the range ends before `last`."""
        return _places(self.places, first - self.range.start, last - self.range.start)

    def pieces(self, start: int, end: int) -> bytes:
        size = self.dtype.itemsize
        before = memoryview(self.places).cast("q")[0]
        return self.ids[(start - before) * size : (end - before) * size]


@dataclass(frozen=True)
class UnitTold:
    """The counts, repairs and ranges of a tokenized unit."""

    unit: int
    counts: Counter
    repairs: Repairs
    num_sentences: int
    num_pieces: int
    ranges: tuple[Range, ...]

    @property
    def num_documents(self) -> int:
        return self.counts["documents"]


def tokens_of(
    number: int, unit: Unit, *, vocabulary: Vocabulary, settings: BuildSettings
) -> Iterator[RangeTokens | UnitTold]:
    """Yields the ranges of a unit in order, and then its counts.

    Raises:
        InputError: A file cannot be read; see `TokenizeUnit`.
    """
    with tempfile.TemporaryDirectory() as work:
        path = kept_vocabulary(vocabulary)
        job = TokenizeUnit(unit, Path(work) / "tokens", path, settings)
        job(lambda _: None)
        store = TokenStore(job.output)
        ranges = []
        for documents in ranges_of(store, [store.num_documents]):
            ranges.append(replace(documents, unit=number))
            yield RangeTokens.of(store, ranges[-1], longest=settings.max_length)
        counts, repairs = counts_of(job.output)
        yield UnitTold(
            number, counts, repairs, store.num_sentences, store.num_pieces, tuple(ranges)
        )


@cache
def kept_vocabulary(vocabulary: Vocabulary) -> Path:
    """Writes the vocabulary to a temporary folder of this process and returns the path.

    A worker has no access to the original file.
    """
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_vocabulary(vocabulary, Path(folder))


def _places(data: bytes, first: int, last: int) -> memoryview:
    return memoryview(data).cast("q")[first : last + 1]


class RangeTable(NamedTuple):
    """The R ranges of the corpus in order, int64 [R] each."""

    units: np.ndarray
    parts: np.ndarray
    firsts: np.ndarray  # document of the corpus
    starts: np.ndarray  # sentence of the unit
    ends: np.ndarray

    def holding(self, documents: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Returns the range, int64 [n], that contains the sentence at `shares` of `documents`."""
        last = np.searchsorted(self.firsts, documents, side="right") - 1
        first = np.searchsorted(self.firsts, self.firsts[last])
        for place in np.flatnonzero(first < last):  # a document in several ranges
            ranges = slice(first[place], last[place] + 1)
            start, end = self.starts[first[place]], self.ends[last[place]]
            sentence = start + int(shares[place] * (end - start))
            last[place] = first[place] - 1
            last[place] += np.searchsorted(self.starts[ranges], sentence, side="right")
        return last


@dataclass(frozen=True)
class Corpus:
    """The counts of the whole corpus after all units are tokenized."""

    told: dict  # for the manifest
    splits: list[Split]
    num_sentences: int
    num_pieces: int
    unit_firsts: np.ndarray  # int64: the first document of each unit
    ranges: RangeTable

    def placed(self, tokens: RangeTokens) -> RangeTokens:
        return tokens.placed(int(self.unit_firsts[tokens.range.unit]))


@dataclass(frozen=True)
class Plan:
    """The distribution of the records of each split over buckets and shards."""

    corpus: Corpus
    layouts: tuple[Layout, ...]  # of each split


def corpus_of(units: Sequence[UnitTold], *, settings: BuildSettings) -> Corpus:
    """Combines the counts of all units, which may be in any order.

    Raises:
        InputError: The corpus has too little text.
    """
    units = sorted(units, key=attrgetter("unit"))
    counts = np.array([unit.num_documents for unit in units], np.int64)
    firsts = np.cumsum(counts) - counts
    rows = [
        (each.unit, each.part, firsts[each.unit] + each.first, each.start, each.end)
        for unit in units
        for each in unit.ranges
    ]
    return Corpus(
        told=told_of((unit.counts, unit.repairs) for unit in units),
        splits=splits_of(
            int(counts.sum()), held_out_rate=settings.held_out_rate, seed=settings.seed
        ),
        num_sentences=sum(unit.num_sentences for unit in units),
        num_pieces=sum(unit.num_pieces for unit in units),
        unit_firsts=firsts,
        ranges=RangeTable(*np.array(rows, np.int64).reshape(-1, len(RangeTable._fields)).T),
    )


def held_out_size(tokens: RangeTokens, corpus: Corpus) -> tuple[int, int]:
    """Counts the sentences and tokens of the held-out documents of a range."""
    num_sentences = num_pieces = 0
    placed = corpus.placed(tokens)
    for document, bounds in documents_of(placed, placed.range):
        if corpus.splits[0].number(document) is None:
            num_sentences += len(bounds) - 1
            num_pieces += bounds[-1] - bounds[0]
    return num_sentences, num_pieces


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
    whole = corpus.num_sentences, corpus.num_pieces
    sizes = [tuple(a - b for a, b in zip(whole, held_out, strict=True)), held_out]
    layouts = (
        layout_of(split, *size, settings=settings, num_separators=num_separators)
        for split, size in zip(corpus.splits, sizes, strict=False)
    )
    return Plan(corpus, tuple(layouts))
