"""Divides documents into splits and ranges, and the records of a split into buckets and shards."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from bert_keras.errors import check, counted
from tfrecords_tools.manifest import split_summary
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenSource, TokenStore

TRAIN, HELD_OUT = "train", "held-out"
SENTENCES_PER_RANGE = 20_000
RECORDS_PER_BUCKET = 100_000
MIN_RECORDS_PER_SHARD = 250  # if the settings do not fix the number of shards


class Range(NamedTuple):
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
    """Returns the split `train` and, if the rate is positive, `held-out`; the seed chooses it."""
    if held_out_rate == 0:
        return [Split(TRAIN, num_documents, array("q"))]
    count = max(2, round(held_out_rate * num_documents))
    check(
        num_documents - count >= 2,
        f"the corpus has {counted(num_documents, 'document')}, too few to hold some out: each "
        "split needs two; put blank lines between documents or add files",
    )
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.choice(num_documents, count, replace=False, shuffle=False))
    held_out = array("q", chosen.astype("<i8").tobytes())
    return [Split(TRAIN, num_documents - count, held_out), Split(HELD_OUT, count, held_out)]


def ranges_of(store: TokenStore, unit_documents: Iterable[int]) -> Iterator[Range]:
    """Yields the ranges of all documents; each unit of the corpus has `unit_documents` of them."""
    first = 0
    for unit, count in enumerate(unit_documents):
        for part, bounds in enumerate(_ranges(store, first, first + count)):
            yield Range(unit, part, *bounds)
        first += count


def _ranges(store: TokenStore, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (first, last, start, end) of ranges of up to about `SENTENCES_PER_RANGE` sentences."""
    # A longer document has ranges of its own.
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
    """Yields (number, bounds) of each document of a range, as objectives read them."""
    starts = store.documents(documents.first, documents.last).tolist()
    starts[0], starts[-1] = documents.start, documents.end
    bounds = store.sentences(documents.start, documents.end).tolist()
    for number, (start, end) in enumerate(pairwise(starts), documents.first):
        yield number, bounds[start - documents.start : end - documents.start + 1]


@dataclass(frozen=True)
class Layout:
    """The buckets and shards of a split."""

    split: Split
    num_sentences: int
    num_tokens: int
    settings: BuildSettings
    num_separators: int  # between two texts
    num_passes: int  # over the documents; held-out documents are read once
    num_buckets: int
    shards: tuple[range, ...]  # the buckets of each shard

    def seeds_of_range(self, documents: Range) -> tuple[int, ...]:
        """Returns the seeds of the instances of a range."""
        return (*self._seeds, 0, documents.unit, documents.part)

    def seeds_of_shard(self, shard: int) -> tuple[int, ...]:
        """Returns the seeds of the order, the cuts and the masks of a shard."""
        return (*self._seeds, 1, shard)

    @property
    def _seeds(self) -> tuple[int, int]:
        return self.settings.seed, 0 if self.split.name == TRAIN else 1

    def expect_records(self, has_records: Iterable[bool]) -> None:
        """Raises InputError unless all of the shards have records."""
        needs = "; sop needs documents of two sentences" * (self.settings.objective == "sop")
        check(
            all(has_records),
            f"the corpus gives too few records ({self.split.name}) for "
            f"{counted(len(self.shards), 'shard')}{needs}; add text or request fewer shards",
        )

    def summary(self, shards: Sequence[dict]) -> dict:
        """Returns the manifest's entry of the split; `shards` are the counts of each shard."""
        labels = ["labels_one"] * self.settings.schema.has_labels
        return split_summary(
            shards,
            summed=("records", "sequences", "tokens", *labels),
            documents=self.split.num_documents,
            sentences=self.num_sentences,
            pieces=self.num_tokens,
        )


def shard_file(split: str, shard: int, num_shards: int) -> str:
    """Returns the name of a record file."""
    return f"{split}-{shard:05d}-of-{num_shards:05d}.tfrecord"


def layouts_of(
    sizes: np.ndarray, *, settings: BuildSettings, num_separators: int
) -> tuple[Layout, ...]:
    """Plans the splits of documents; `sizes` is that of `TokenStore.document_sizes`."""
    splits = splits_of(sizes.shape[1], held_out_rate=settings.held_out_rate, seed=settings.seed)
    held_out = sizes[:, np.array(splits[0].held_out, np.int64)].sum(axis=1)
    layouts = []
    for split, size in zip(splits, [sizes.sum(axis=1) - held_out, held_out], strict=False):
        check(
            settings.objective != "nsp" or split.num_documents >= 2,
            "next sentence prediction needs at least two documents, because a random next text "
            "comes from another document; put blank lines between documents or add files",
        )
        passes = cast(int, settings.duplicates) if split.name == TRAIN else 1  # not None
        num_sentences, num_tokens = size.tolist()
        # An instance has at most as many tokens as a record, so these are the fewest instances.
        expected = passes * num_tokens // settings.max_length + 1
        num_shards = settings.shards if split.name == TRAIN else 1
        if num_shards is None:
            minimum = min(4, max(1, expected // MIN_RECORDS_PER_SHARD))
            num_buckets = num_shards = max(minimum, -(-expected // RECORDS_PER_BUCKET))
        else:
            num_buckets = num_shards * max(1, -(-expected // (num_shards * RECORDS_PER_BUCKET)))
        step = num_buckets // num_shards
        shards = tuple(range(start, start + step) for start in range(0, num_buckets, step))
        layout = Layout(
            split, num_sentences, num_tokens, settings, num_separators, passes, num_buckets, shards
        )
        layouts.append(layout)
    return tuple(layouts)
