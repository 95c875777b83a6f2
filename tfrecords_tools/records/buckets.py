"""Assigns instances to random buckets in files on disk, and reads the instances of a bucket.

A file contains the index at which each bucket begins, and then the spans of all buckets, int64
[n,4]: number of the instance in the file, label, start and end in the store. The spans of an
instance are adjacent and in order.

Instances that are assigned to buckets independently and shuffled within each bucket are shuffled as
a whole (Rao 1961; Sandelius 1962), although they are never in memory together.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_keras.files import atomic_file
from tfrecords_tools.records.objectives import Instance
from tfrecords_tools.text.store import INDEX_DTYPE

NUM_COLUMNS = 4


class SpanTable(NamedTuple):
    """Spans of instances, int64 [n] each; the spans of an instance are adjacent."""

    instances: np.ndarray  # 0, 1, ... in the order of the table
    labels: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def write_buckets(
    path: str | os.PathLike,
    instances: Iterable[Instance],
    *,
    num_buckets: int,
    generator: np.random.Generator,
) -> None:
    """Assigns each instance to a random bucket and writes the file.

    The file appears only when it is complete.
    """
    flat: list[int] = []
    for number, (spans, label) in enumerate(instances):
        for span in spans:
            flat += (number, label, *span)
    table = np.array(flat, INDEX_DTYPE).reshape(-1, NUM_COLUMNS)
    num_instances = int(table[-1, 0]) + 1 if len(table) else 0
    buckets = generator.integers(num_buckets, size=num_instances)[table[:, 0]]
    order = np.argsort(buckets, kind="stable")
    ends = np.searchsorted(buckets[order], np.arange(1, num_buckets))
    write_tables(path, np.split(table[order], ends), num_buckets=num_buckets)


def write_tables(
    path: str | os.PathLike, tables: Iterable[np.ndarray], *, num_buckets: int
) -> None:
    """Writes a file of buckets from one table of spans, int64 [n,4], for each bucket.

    The file appears only when it is complete.
    """
    starts = np.zeros(num_buckets + 1, INDEX_DTYPE)
    with atomic_file(path) as partial_path, partial_path.open("wb") as file:
        file.write(starts.tobytes())
        for bucket, table in enumerate(tables, start=1):
            file.write(table.astype(INDEX_DTYPE).tobytes())
            starts[bucket] = starts[bucket - 1] + len(table)
        file.seek(0)
        file.write(starts.tobytes())


def read_bucket(paths: Iterable[Path], *, num_buckets: int, bucket: int) -> SpanTable:
    """Returns the instances of one bucket from all files, in their order."""
    tables, num_before = [np.empty((0, NUM_COLUMNS), INDEX_DTYPE)], 0
    for path in paths:
        with path.open("rb") as file:
            file.seek(bucket * INDEX_DTYPE.itemsize)
            start, end = np.fromfile(file, INDEX_DTYPE, 2).tolist()
            file.seek(((num_buckets + 1) + start * NUM_COLUMNS) * INDEX_DTYPE.itemsize)
            table = np.fromfile(file, INDEX_DTYPE, (end - start) * NUM_COLUMNS).reshape(
                -1, NUM_COLUMNS
            )
        if len(table):
            is_next = np.diff(table[:, 0], prepend=table[0, 0]) != 0
            table[:, 0] = num_before + np.cumsum(is_next)
            num_before = int(table[-1, 0]) + 1
            tables.append(table)
    return SpanTable(*np.concatenate(tables).T)


def bucket_sizes(paths: Iterable[Path], *, num_buckets: int) -> np.ndarray:
    """Returns the number of spans in each bucket, int64 [num_buckets]."""
    sizes = np.zeros(num_buckets, np.int64)
    for path in paths:
        sizes += np.diff(np.fromfile(path, INDEX_DTYPE, num_buckets + 1))
    return sizes
