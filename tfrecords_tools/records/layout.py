"""Decides how the records of a split are spread over buckets and shards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from bert_keras.errors import InputError, counted
from tfrecords_tools.manifest import split_summary
from tfrecords_tools.records.splits import TRAIN, Range, Split
from tfrecords_tools.settings import BuildSettings

RECORDS_PER_BUCKET = 100_000
MIN_RECORDS_PER_SHARD = 250  # if the settings do not fix the number of shards


@dataclass(frozen=True)
class Layout:
    """The buckets and shards of a split; neighbouring buckets fill a shard."""

    split: Split
    num_sentences: int
    num_tokens: int
    settings: BuildSettings
    num_separators: int  # between two texts
    num_passes: int  # over the documents; held-out documents are read once
    num_buckets: int
    shards: tuple[range, ...]  # the buckets of each shard

    def file(self, shard: int) -> str:
        """Returns the name of the record file of a shard."""
        return shard_file(self.split.name, shard, len(self.shards))

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
        has_records = [*has_records]
        if self.settings.objective == "sop" and not any(has_records):
            raise InputError(
                f"each document ({self.split.name}) has one sentence, but sentence order "
                "prediction needs two; remove blank lines within documents or use another objective"
            )
        if not all(has_records):
            raise InputError(
                f"the corpus gives too few records ({self.split.name}) for "
                f"{counted(len(self.shards), 'shard')}; add text or request fewer shards"
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


def layout_of(
    split: Split,
    num_sentences: int,
    num_tokens: int,
    *,
    settings: BuildSettings,
    num_separators: int,
) -> Layout:
    """Chooses the number of buckets and shards of a split.

    Args:
        split: The split.
        num_sentences: The number of its sentences.
        num_tokens: The number of its tokens.
        settings: The settings of the records.
        num_separators: The number of separators between two texts.

    Raises:
        InputError: The objective needs more documents.
    """
    if settings.objective == "nsp" and split.num_documents < 2:
        raise InputError(
            "next sentence prediction needs at least two documents, because a random next text "
            "comes from another document; put blank lines between documents or add files"
        )
    num_passes = cast(int, settings.duplicates) if split.name == TRAIN else 1  # None is resolved
    # An instance has at most as many tokens as a record, so there are at least this many instances.
    expected = num_passes * num_tokens // settings.max_length + 1
    num_shards = settings.shards if split.name == TRAIN else 1
    if num_shards is None:
        minimum = min(4, max(1, expected // MIN_RECORDS_PER_SHARD))
        num_buckets = num_shards = max(minimum, -(-expected // RECORDS_PER_BUCKET))
    else:
        num_buckets = num_shards * max(1, -(-expected // (num_shards * RECORDS_PER_BUCKET)))
    step = num_buckets // num_shards
    shards = tuple(range(start, start + step) for start in range(0, num_buckets, step))
    return Layout(
        split, num_sentences, num_tokens, settings, num_separators, num_passes, num_buckets, shards
    )
