"""Buckets of instances and the token store come in; a shard of records goes out, counted."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.schema import PretrainingSchema
from bert_keras.storage import whole_file
from bert_keras.text.fast_tokenizer import vocabulary_from
from tfrecords_tools.records.buckets import read_bucket
from tfrecords_tools.records.instances import Sequences, batches, features, sequences_of
from tfrecords_tools.records.writer import framed, serialized
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
        counts, digest, left = Counter(), hashlib.sha256(), self.size
        with whole_file(self.output) as part, part.open("wb") as file:
            for batch in self._batches(generator, vocabulary.specials.num_separators):
                values = features_of(batch, pieces_of(batch, store))
                records = framed(serialized(values))
                file.write(records)
                digest.update(records)
                counts.update(
                    records=batch.num_rows,
                    sequences=len(batch.labels),
                    tokens=int(values["input_mask"].sum()),
                    labels_one=int(batch.labels.sum()),
                    bytes=len(records),
                )
                written = min(left, batch.num_rows)
                advance(written)
                left -= written
            told = {"file": self.output.name, **counts, "sha256": digest.hexdigest()}
            with whole_file(self.counts) as counts_part:
                counts_part.write_text(json.dumps(told), encoding="utf-8")
        advance(left)

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
