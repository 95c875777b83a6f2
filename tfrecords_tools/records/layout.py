"""Decides how the records of a split are spread over buckets and shards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from bert_keras.errors import InputError
from tfrecords_tools.manifest import split_summary
from tfrecords_tools.records.examples import Search
from tfrecords_tools.records.splits import TRAIN, Range, Split
from tfrecords_tools.settings import BuildSettings

RECORDS_PER_BUCKET = 100_000
RECORDS_PER_SHARD_AT_LEAST = 250  # where the number of shards is not given


@dataclass(frozen=True)
class Layout:
    """Records of a split: they are thrown into buckets, and neighbouring buckets fill a shard."""

    split: Split
    num_sentences: int
    num_pieces: int
    settings: BuildSettings
    num_separators: int  # between two texts
    num_buckets: int
    shards: tuple[range, ...]  # the buckets of each

    @property
    def search(self) -> Search:
        return Search(
            split=self.split,
            objective=self.settings.objective,
            passes=_passes(self.split, self.settings),
            max_length=self.settings.max_length,
            short_rate=self.settings.short_sequence_rate,
            fills_records=self.settings.schema.is_packed,
            num_separators=self.num_separators,
        )

    def file(self, place: int) -> str:
        return shard_file(self.split.name, place, len(self.shards))

    def seeds_of_range(self, documents: Range) -> tuple[int, ...]:
        return (*self._seeds, 0, documents.unit, documents.part)

    def seeds_of_shard(self, place: int) -> tuple[int, ...]:
        return (*self._seeds, 1, place)

    @property
    def _seeds(self) -> tuple[int, int]:
        return self.settings.seed, 0 if self.split.name == TRAIN else 1

    def expect_records(self, has_records: Iterable[bool]) -> None:
        """InputError where not all of the shards have some."""
        if not all(has_records):
            raise InputError(
                f"the corpus gives too few records ({self.split.name}) for {len(self.shards)} "
                "shards; give more text or ask for fewer"
            )

    def summary(self, shards: Sequence[dict]) -> dict:
        """What the manifest says of the split; `shards` are the counts of each."""
        labels = ["labels_one"] * self.settings.schema.has_labels
        return split_summary(
            shards,
            summed=("records", "sequences", "tokens", *labels),
            documents=self.split.num_documents,
            sentences=self.num_sentences,
            pieces=self.num_pieces,
        )


def shard_file(split: str, place: int, num_shards: int) -> str:
    """The name of a record file."""
    return f"{split}-{place:05d}-of-{num_shards:05d}.tfrecord"


def layout_of(
    split: Split,
    num_sentences: int,
    num_pieces: int,
    *,
    settings: BuildSettings,
    num_separators: int,
) -> Layout:
    """InputError where the objective needs more documents."""
    if settings.objective == "nsp" and split.num_documents < 2:
        raise InputError(
            "next sentence prediction needs at least two documents, for a random next text comes "
            "from another one; put blank lines between documents or give more files"
        )
    # An instance holds a record's pieces at most: there are this many at least.
    expected = _passes(split, settings) * num_pieces // settings.max_length + 1
    num_shards = settings.shards if split.name == TRAIN else 1
    num_buckets = _num_buckets(expected, num_shards)
    shards = np.array_split(np.arange(num_buckets), num_shards or num_buckets)
    ranges = tuple(range(int(each[0]), int(each[-1]) + 1) for each in shards)
    return Layout(split, num_sentences, num_pieces, settings, num_separators, num_buckets, ranges)


def _passes(split: Split, settings: BuildSettings) -> int:
    """What is held out is seen once."""
    return cast(int, settings.duplicates) if split.name == TRAIN else 1  # None is resolved


def _num_buckets(expected_records: int, num_shards: int | None) -> int:
    """Buckets small enough for memory, as many in each shard."""
    if num_shards is None:
        fewest = min(4, max(1, expected_records // RECORDS_PER_SHARD_AT_LEAST))
        return max(fewest, -(-expected_records // RECORDS_PER_BUCKET))
    return num_shards * max(1, -(-expected_records // (num_shards * RECORDS_PER_BUCKET)))
