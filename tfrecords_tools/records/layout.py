"""Decides how the records of a split are spread over buckets and shards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from bert_keras.errors import InputError
from tfrecords_tools.manifest import split_summary
from tfrecords_tools.records.splits import TRAIN, Range, Split
from tfrecords_tools.settings import BuildSettings

RECORDS_PER_BUCKET = 100_000
RECORDS_PER_SHARD_AT_LEAST = 250  # if the number of shards is not given


@dataclass(frozen=True)
class Layout:
    """The buckets and shards of a split; neighbouring buckets fill a shard."""

    split: Split
    num_sentences: int
    num_pieces: int
    settings: BuildSettings
    num_separators: int  # between two texts
    num_buckets: int
    shards: tuple[range, ...]  # the buckets of each shard

    @property
    def passes(self) -> int:
        return _passes(self.split, self.settings)

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
        """Raises InputError unless all of the shards have records."""
        if not all(has_records):
            raise InputError(
                f"the corpus gives too few records ({self.split.name}) for {len(self.shards)} "
                "shards; give more text or ask for fewer"
            )

    def summary(self, shards: Sequence[dict]) -> dict:
        """Returns the manifest's entry of the split; `shards` are the counts of each shard."""
        labels = ["labels_one"] * self.settings.schema.has_labels
        return split_summary(
            shards,
            summed=("records", "sequences", "tokens", *labels),
            documents=self.split.num_documents,
            sentences=self.num_sentences,
            pieces=self.num_pieces,
        )


def shard_file(split: str, place: int, num_shards: int) -> str:
    """Returns the name of a record file."""
    return f"{split}-{place:05d}-of-{num_shards:05d}.tfrecord"


def layout_of(
    split: Split,
    num_sentences: int,
    num_pieces: int,
    *,
    settings: BuildSettings,
    num_separators: int,
) -> Layout:
    """Chooses the number of buckets and shards of a split.

    Args:
        split: The split.
        num_sentences: The number of its sentences.
        num_pieces: The number of its tokens.
        settings: The settings of the records.
        num_separators: The number of separators between two texts.

    Raises:
        InputError: The objective needs more documents.
    """
    if settings.objective == "nsp" and split.num_documents < 2:
        raise InputError(
            "next sentence prediction needs at least two documents, for a random next text comes "
            "from another one; put blank lines between documents or give more files"
        )
    # An instance has at most as many tokens as a record, so there are at least this many instances.
    expected = _passes(split, settings) * num_pieces // settings.max_length + 1
    num_shards = settings.shards if split.name == TRAIN else 1
    if num_shards is None:
        fewest = min(4, max(1, expected // RECORDS_PER_SHARD_AT_LEAST))
        num_buckets = num_shards = max(fewest, -(-expected // RECORDS_PER_BUCKET))
    else:
        num_buckets = num_shards * max(1, -(-expected // (num_shards * RECORDS_PER_BUCKET)))
    each = num_buckets // num_shards
    shards = tuple(range(first, first + each) for first in range(0, num_buckets, each))
    return Layout(split, num_sentences, num_pieces, settings, num_separators, num_buckets, shards)


def _passes(split: Split, settings: BuildSettings) -> int:
    """Returns the number of passes over the documents; held-out documents are read once."""
    return cast(int, settings.duplicates) if split.name == TRAIN else 1  # None is resolved
