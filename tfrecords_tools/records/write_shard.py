"""Writes a shard of records from buckets of instances and the token store."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_keras.data.masking import Masker
from bert_keras.text.fast_tokenizer import vocabulary_from
from tfrecords_tools.records.buckets import read_bucket
from tfrecords_tools.records.instances import Sequences, batches, features, sequences_of
from tfrecords_tools.records.layout import Layout
from tfrecords_tools.records.writer import write_record_file
from tfrecords_tools.text.store import TokenStore

_BATCH_RECORDS = 1024  # masked and encoded at once; their arrays fit a processor's cache
_RELEASE_INTERVAL = 512  # spans; each leaves some 64 kB of the store in memory


@dataclass(frozen=True)
class WriteShard:
    """A job that writes a JSON file with the entry of the manifest, and then a record file."""

    output: Path
    counts: Path
    instances: tuple[Path, ...]  # the files of `FindInstances`
    layout: Layout
    shard: int  # index in the layout
    store: Path
    vocabulary: Path
    size: int  # estimated number of records

    def __call__(self, advance: Callable[[int], object]) -> None:
        store = TokenStore(self.store)
        vocabulary = vocabulary_from(self.vocabulary)
        settings = self.layout.settings
        generator = np.random.default_rng(self.layout.seeds_of_shard(self.shard))
        masker = Masker(settings.policy, vocabulary) if settings.policy else None

        def batches_with_counts() -> Iterator[tuple[dict[str, np.ndarray], dict[str, int]]]:
            for batch in self._batches(generator):
                values = features(
                    batch,
                    tokens_of(batch, store),
                    schema=settings.schema,
                    vocabulary=vocabulary,
                    masker=masker,
                    generator=generator,
                )
                counts = {
                    "records": batch.num_rows,
                    "sequences": len(batch.labels),
                    "tokens": int(values["input_mask"].sum()),
                    "labels_one": int(batch.labels.sum()),
                }
                yield values, counts
                advance(batch.num_rows)

        write_record_file(self.output, self.counts, batches_with_counts())

    def _batches(self, generator: np.random.Generator) -> Iterator[Sequences]:
        layout = self.layout
        for bucket in layout.shards[self.shard]:
            table = read_bucket(self.instances, num_buckets=layout.num_buckets, bucket=bucket)
            if len(table.instances):
                sequences = sequences_of(
                    table,
                    schema=layout.settings.schema,
                    num_separators=layout.num_separators,
                    generator=generator,
                )
                yield from batches(sequences, num_rows=_BATCH_RECORDS)


def tokens_of(sequences: Sequences, store: TokenStore) -> np.ndarray:
    """Returns the token ids of all spans, concatenated."""
    tokens = []
    for first in range(0, len(sequences.starts), _RELEASE_INTERVAL):
        group = slice(first, first + _RELEASE_INTERVAL)
        tokens.append(store.tokens_of_spans(sequences.starts[group], sequences.lengths[group]))
        store.release()
    return np.concatenate(tokens)
