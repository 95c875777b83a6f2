"""What all units say comes in; the plan that every worker follows goes out.

It is small: 40 bytes a range of documents, and 8 a document that is held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tfrecords_tools.beam.tokens import RangeTokens, UnitTold
from tfrecords_tools.build import told_of
from tfrecords_tools.records.layout import Layout, layout_of
from tfrecords_tools.records.splits import Split, documents_of, splits_of
from tfrecords_tools.settings import BuildSettings


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
