"""Tokenizes units of the corpus into ranges of documents, and plans the records from their counts.

What `TokenizeUnit` leaves in a folder is cut along the ranges that `FindInstances` reads, so that
no machine needs another one's folder. The plan, which every worker follows, is small: 40 bytes a
range of documents, and 8 a document that is held out.
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
    """What a range needs of a token store, read like one: see `TokenStore`.

    Sentences and pieces are numbered within the unit, documents too until they are `placed`. Of a
    document of several ranges each also holds the sentences behind its own into which a text may
    reach that begins in it.
    """

    range: Range
    dtype: np.dtype
    starts: bytes  # int64, the sentence where each document begins, and where the last ends
    places: bytes  # int64, the piece where each sentence begins, and the end
    ids: bytes

    @classmethod
    def of(cls, store: TokenStore, documents: Range, *, longest: int) -> "RangeTokens":
        """`longest` is how many pieces a text of it may be asked to fill."""
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
        """The same with documents numbered over the corpus, those of the unit from there on."""
        own = self.range
        moved = replace(own, first=own.first + first_document, last=own.last + first_document)
        return replace(self, range=moved)

    def documents(self, first: int, last: int) -> memoryview:
        return _places(self.starts, first - self.range.first, last - self.range.first)

    def sentences(self, first: int, last: int) -> memoryview:
        """Fewer where the range holds no more."""
        return _places(self.places, first - self.range.start, last - self.range.start)

    def pieces(self, start: int, end: int) -> bytes:
        size = self.dtype.itemsize
        before = memoryview(self.places).cast("q")[0]
        return self.ids[(start - before) * size : (end - before) * size]


@dataclass(frozen=True)
class UnitTold:
    """What is said of a unit when its ranges are made."""

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
    """The ranges of a unit in their order, and then what there is to say of it.

    Raises InputError as `TokenizeUnit` does.
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
    """Where this process keeps the vocabulary: a worker shares no files with where it was given."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_vocabulary(vocabulary, Path(folder))


def _places(data: bytes, first: int, last: int) -> memoryview:
    return memoryview(data).cast("q")[first : last + 1]


class RangeTable(NamedTuple):
    """All ranges of the corpus in their order, int64 [R] each."""

    units: np.ndarray
    parts: np.ndarray
    firsts: np.ndarray  # document of the corpus
    starts: np.ndarray  # sentence of the unit
    ends: np.ndarray

    def holding(self, documents: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Which range, int64 [n], holds the sentence at that share of each document [n]."""
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
    """The corpus as a whole, when every unit is tokenised."""

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
    """How the records of each split are spread over buckets and shards."""

    corpus: Corpus
    layouts: tuple[Layout, ...]  # of each split


def corpus_of(units: Sequence[UnitTold], *, settings: BuildSettings) -> Corpus:
    """`units` are all of them in any order. InputError where there is too little text."""
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
    """Sentences and pieces of the documents of a range that are held out."""
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
    """`held_out` sums up `held_out_size`. InputError where there are too few documents."""
    whole = corpus.num_sentences, corpus.num_pieces
    sizes = [tuple(a - b for a, b in zip(whole, held_out, strict=True)), held_out]
    layouts = (
        layout_of(split, *size, settings=settings, num_separators=num_separators)
        for split, size in zip(corpus.splits, sizes, strict=False)
    )
    return Plan(corpus, tuple(layouts))
