"""Writes a shard of records from buckets of instances and the token store."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.schema import PretrainingSchema
from bert_keras.text.fast_tokenizer import vocabulary_from
from tfrecords_tools.records.buckets import read_bucket
from tfrecords_tools.records.instances import Sequences, batches, features, sequences_of
from tfrecords_tools.records.writer import write_record_file
from tfrecords_tools.text.store import TokenStore

_RECORDS_TOGETHER = 1024  # masked and encoded at once; their arrays fit a processor's cache
_SPANS_TOGETHER = 512  # each leaves some 64 kB of the store in memory


@dataclass(frozen=True)
class WriteShard:
    """A job: a record file, and before it a file of JSON with what the manifest says of it."""

    output: Path
    counts: Path
    instances: tuple[Path, ...]  # the files of `FindInstances`
    num_buckets: int
    buckets: range  # that go into this shard
    store: Path
    dtype: np.dtype
    vocabulary: Path
    schema: PretrainingSchema
    policy: MaskingPolicy | None  # None: plain ids
    seeds: tuple[int, ...]
    size: int  # about how many records

    def __call__(self, advance: Callable[[int], object]) -> None:
        store = TokenStore(self.store, dtype=self.dtype)
        vocabulary = vocabulary_from(self.vocabulary)
        generator = np.random.default_rng(self.seeds)
        features_of = partial(
            features,
            schema=self.schema,
            vocabulary=vocabulary,
            masker=self.policy and Masker(self.policy, vocabulary),
            generator=generator,
        )

        def counted() -> Iterator[tuple[dict[str, np.ndarray], dict[str, int]]]:
            for batch in self._batches(generator, vocabulary.specials.num_separators):
                values = features_of(batch, pieces_of(batch, store))
                yield (
                    values,
                    {
                        "records": batch.num_rows,
                        "sequences": len(batch.labels),
                        "tokens": int(values["input_mask"].sum()),
                        "labels_one": int(batch.labels.sum()),
                    },
                )
                advance(batch.num_rows)

        write_record_file(self.output, self.counts, counted())

    def _batches(self, generator: np.random.Generator, separators: int) -> Iterator[Sequences]:
        for bucket in self.buckets:
            table = read_bucket(self.instances, num_buckets=self.num_buckets, bucket=bucket)
            if len(table.instances):
                sequences = sequences_of(
                    table, schema=self.schema, num_separators=separators, generator=generator
                )
                yield from batches(sequences, num_rows=_RECORDS_TOGETHER)


def pieces_of(sequences: Sequences, store: TokenStore) -> np.ndarray:
    """The pieces of all spans, one after the other."""
    spans = list(zip(sequences.starts.tolist(), sequences.lengths.tolist(), strict=True))
    pieces = []
    for begin in range(0, len(spans), _SPANS_TOGETHER):
        together = spans[begin : begin + _SPANS_TOGETHER]
        pieces += [store.pieces(start, start + length) for start, length in together]
        store.release()
    return np.frombuffer(b"".join(pieces), store.dtype)
