"""Writes the shards of a split: shortens, shuffles, packs and masks instances of buckets."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data.masking import Masker
from bert_keras.data.record_file import PretrainingSchema, write_record_file
from bert_keras.text import packing
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.instances import Layout
from tfrecords_tools.store import SpanTable, TokenStore, read_bucket

_BATCH_RECORDS = 1024  # masked and encoded at once; their arrays fit a processor's cache


class Sequences(NamedTuple):
    """N sequences and their M spans, both in the order of the records (also called rows)."""

    starts: np.ndarray  # int64 [M], token indices in the store
    lengths: np.ndarray  # int64 [M], in tokens
    bounds: np.ndarray  # int64 [N+1]: the first span of each sequence, and M
    labels: np.ndarray  # int64 [N]
    rows: np.ndarray  # int64 [N], ascending: the record of each sequence
    columns: np.ndarray  # int64 [N]: the position of its [CLS] in the record

    @property
    def num_rows(self) -> int:
        """The number of records."""
        return int(self.rows[-1]) + 1 if len(self.rows) else 0

    def of_rows(self, first: int, last: int) -> "Sequences":
        """Returns the sequences of the records [first, last); rows and spans count from 0."""
        start, end = np.searchsorted(self.rows, [first, last])
        spans = slice(self.bounds[start], self.bounds[end])
        bounds = self.bounds[start : end + 1] - self.bounds[start]
        labels, rows = self.labels[start:end], self.rows[start:end] - first
        columns = self.columns[start:end]
        return Sequences(self.starts[spans], self.lengths[spans], bounds, labels, rows, columns)


@dataclass(frozen=True)
class WriteShard:
    """A job that writes a record file and returns its entry of the manifest."""

    output: Path
    instances: tuple[Path, ...]  # the files of `FindInstances`
    layout: Layout
    shard: int  # index in the layout
    store_folder: Path
    vocabulary: Vocabulary
    size: int  # estimated number of records

    def __call__(self) -> dict[str, Any]:
        return write_record_file(self.output, self._batches())

    def _batches(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields the features of batches of records."""
        store, layout, vocabulary = TokenStore(self.store_folder), self.layout, self.vocabulary
        settings, schema = layout.settings, layout.settings.schema
        generator = layout.generator(1, self.shard)
        masker = Masker(settings.policy, vocabulary) if settings.policy else None
        for bucket in layout.shards[self.shard]:
            table = read_bucket(self.instances, num_buckets=layout.num_buckets, bucket=bucket)
            if not len(table.instances):
                continue
            sequences = arrange_sequences(
                table, schema=schema, num_separators=layout.num_separators, generator=generator
            )
            for row in range(0, sequences.num_rows, _BATCH_RECORDS):
                batch = sequences.of_rows(row, row + _BATCH_RECORDS)
                parts = {"schema": schema, "vocabulary": vocabulary, "masker": masker}
                tokens = store.tokens_of_spans(batch.starts, batch.lengths)
                yield record_features(batch, tokens, **parts, generator=generator)


def _sequence_sizes(lengths: np.ndarray, bounds: np.ndarray, *, num_separators: int) -> np.ndarray:
    """Returns int64 [N]: the number of positions of each sequence, special tokens included."""
    # 2 = [CLS] and the last [SEP]; the sum counts one separator too many in each sequence.
    return 2 - num_separators + np.add.reduceat(lengths + num_separators, bounds[:-1])


def arrange_sequences(
    table: SpanTable,
    *,
    schema: PretrainingSchema,
    generator: np.random.Generator,
    num_separators: int = 1,
) -> Sequences:
    """Shuffles the instances of a bucket, shortens pairs that are too long, and fills records.

    Args:
        table: The spans of the instances.
        schema: The length of a record and its maximum number of sequences.
        generator: The source of all random numbers.
        num_separators: The number of separator tokens between two texts.
    """
    first_spans = np.flatnonzero(np.diff(table.instances, prepend=-1))
    order = generator.permutation(len(first_spans))
    spans, bounds = _reorder_spans(np.append(first_spans, len(table.instances)), order)
    starts, lengths = table.starts[spans], table.ends[spans] - table.starts[spans]
    sizes = _sequence_sizes(lengths, bounds, num_separators=num_separators)
    # Only pairs can be too long. Their longer text loses a random part of the tokens at its start.
    first_of_long = bounds[:-1][sizes > schema.max_length]
    pairs = np.stack([first_of_long, first_of_long + 1])  # int [2, P], indices of spans
    limit = schema.max_length - 2 - num_separators
    shortened = np.stack(packing.truncated_lengths(*lengths[pairs], limit=limit))
    starts[pairs] += generator.binomial(lengths[pairs] - shortened, 0.5)
    lengths[pairs] = shortened
    labels = table.labels[first_spans[order]]
    if schema.max_sequences == 1:
        rows = np.arange(len(order))
        return Sequences(starts, lengths, bounds, labels, rows, np.zeros_like(rows))
    sizes = _sequence_sizes(lengths, bounds, num_separators=num_separators)
    limits = {"length": schema.max_length, "most": schema.max_sequences}
    order, rows, columns = _fill_rows(sizes, **limits, generator=generator)
    spans, bounds = _reorder_spans(bounds, order)
    return Sequences(starts[spans], lengths[spans], bounds, labels[order], rows, columns)


def record_features(
    sequences: Sequences,
    tokens: np.ndarray,
    *,
    schema: PretrainingSchema,
    vocabulary: Vocabulary,
    masker: Masker | None,
    generator: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Returns the features of a batch of records.

    Args:
        tokens: The ids of all spans, concatenated, as `tfrecords_tools.tokens` writes them.
        schema: The features of a record and their sizes.
        vocabulary: The vocabulary of the ids.
        masker: Masks the ids, or None to leave them unmasked.
        generator: The source of the masks.
    """
    vocab_size, num_separators = len(vocabulary), vocabulary.specials.num_separators
    lengths, first_spans = sequences.lengths, sequences.bounds[:-1]
    num_spans = np.diff(sequences.bounds)  # of each sequence
    # For each of M spans: its index in its sequence, and the positions between it and the [CLS].
    index_in_sequence = np.arange(len(lengths)) - np.repeat(first_spans, num_spans)
    num_before = np.cumsum(lengths + num_separators) - lengths - num_separators
    offsets = num_before - np.repeat(num_before[first_spans], num_spans)
    spans = packing.TextSpans(
        rows=np.repeat(sequences.rows, num_spans),
        columns=np.repeat(sequences.columns, num_spans) + 1 + offsets,
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        segments=index_in_sequence if schema.has_labels else np.zeros_like(index_in_sequence),
        is_first=index_in_sequence == 0,
    )
    shape = {"num_rows": sequences.num_rows, "length": schema.max_length}
    values = packing.pack_spans(tokens, spans, vocabulary=vocabulary, **shape)
    is_continuation = None
    if masker and masker.policy.unit == "word":  # see `tfrecords_tools.tokens` on raised ids
        is_continuation = values["input_ids"] >= vocab_size
        values["input_ids"] -= is_continuation * np.int32(vocab_size)
    if schema.is_packed:
        values |= packing.packing_features(values, cls_id=vocabulary.cls_id)
    if masker:
        values |= masker.mask(values["input_ids"], generator=generator, continues=is_continuation)
    if schema.has_labels and not schema.is_packed:
        values["next_sentence_labels"] = sequences.labels[:, None]
    elif schema.has_labels:
        # `searchsorted` returns the index of the first sequence in the same row.
        index_in_row = np.arange(len(first_spans)) - np.searchsorted(sequences.rows, sequences.rows)
        for name, value, dtype in (
            ("next_sentence_labels", sequences.labels, np.int64),
            ("next_sentence_positions", sequences.columns, np.int64),
            ("next_sentence_weights", 1, np.float32),
        ):
            values[name] = np.zeros((sequences.num_rows, schema.max_sequences), dtype)
            values[name][sequences.rows, index_in_row] = value
    return values


def _reorder_spans(bounds: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of the spans in the new order of the sequences, and the new bounds.

    `bounds` are those of `Sequences`; `order` has the indices of the sequences in the new order.
    """
    counts = np.diff(bounds)[order]
    starts = np.cumsum(counts) - counts
    return packing.span_indices(bounds[:-1][order], counts), np.append(starts, counts.sum())


def _fill_rows(
    sizes: np.ndarray, *, length: int, most: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distributes sequences of int [N] `sizes` over rows of `length` with at most `most` each.

    A row gets the largest remaining sequence, and then repeatedly the largest that still fits. The
    order of rows, and of sequences in a row, is random. Returns the sequences in their new order,
    and the row and the column of each, int [N].
    """
    of_size: list[list[int]] = [[] for _ in range(length + 1)]
    for index, size in enumerate(sizes.tolist()):
        of_size[size].append(index)
    # Bit n is set while there are sequences of size n. (2 << space) - 1 has the bits 0 to `space`.
    remaining_sizes = sum(1 << size for size, indices in enumerate(of_size) if indices)
    rows: list[list[int]] = []
    while remaining_sizes:
        row, space = [], length
        while len(row) < most and (fitting := remaining_sizes & ((2 << space) - 1)):
            size = fitting.bit_length() - 1
            row.append(of_size[size].pop())
            space -= size
            if not of_size[size]:
                remaining_sizes ^= 1 << size
        rows.append(row)
    rows = [rows[index] for index in generator.permutation(len(rows)).tolist()]
    counts = np.array([len(row) for row in rows])
    row_of = np.repeat(np.arange(len(rows)), counts)
    order = np.array([index for row in rows for index in row])
    order = order[np.lexsort((generator.random(len(order)), row_of))]
    starts = np.cumsum(sizes[order]) - sizes[order]
    return order, row_of, starts - starts[np.searchsorted(row_of, row_of)]
