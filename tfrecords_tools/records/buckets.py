"""Throws instances into buckets by chance, in files on disk, and reads the instances of a bucket.

A file holds where each bucket begins, and then its spans, int64 [n,4]: number of the instance in
the file, its label, start and end in the store; those of an instance together, in their order.
Thrown into buckets independently and shuffled within each, instances are shuffled over them all
(Rao 1961; Sandelius 1962), without ever being together in memory.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_keras.storage import whole_file
from tfrecords_tools.records.objectives import Instance
from tfrecords_tools.text.store import PLACE

COLUMNS = 4


class SpanTable(NamedTuple):
    """Spans of instances, int64 [n] each; those of an instance stand together."""

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
    """Writes the file whole or not at all."""
    flat: list[int] = []
    for number, (spans, label) in enumerate(instances):
        for span in spans:
            flat += (number, label, *span)
    table = np.array(flat, PLACE).reshape(-1, COLUMNS)
    num_instances = int(table[-1, 0]) + 1 if len(table) else 0
    buckets = generator.integers(num_buckets, size=num_instances)[table[:, 0]]
    order = np.argsort(buckets, kind="stable")
    ends = np.searchsorted(buckets[order], np.arange(1, num_buckets))
    write_tables(path, np.split(table[order], ends), num_buckets=num_buckets)


def write_tables(
    path: str | os.PathLike, tables: Iterable[np.ndarray], *, num_buckets: int
) -> None:
    """The file, whole or not at all, of the spans of each bucket as they stand in it."""
    begins = np.zeros(num_buckets + 1, PLACE)
    with whole_file(path) as part, part.open("wb") as file:
        file.write(begins.tobytes())
        for bucket, table in enumerate(tables, start=1):
            file.write(table.astype(PLACE).tobytes())
            begins[bucket] = begins[bucket - 1] + len(table)
        file.seek(0)
        file.write(begins.tobytes())


def read_bucket(paths: Iterable[Path], *, num_buckets: int, bucket: int) -> SpanTable:
    """The instances of one bucket, of all files in their order."""
    tables, num_before = [np.empty((0, COLUMNS), PLACE)], 0
    for path in paths:
        with path.open("rb") as file:
            file.seek(bucket * PLACE.itemsize)
            begin, end = np.fromfile(file, PLACE, 2).tolist()
            file.seek(((num_buckets + 1) + begin * COLUMNS) * PLACE.itemsize)
            table = np.fromfile(file, PLACE, (end - begin) * COLUMNS).reshape(-1, COLUMNS)
        if len(table):
            is_next = np.diff(table[:, 0], prepend=table[0, 0]) != 0
            table[:, 0] = num_before + np.cumsum(is_next)
            num_before = int(table[-1, 0]) + 1
            tables.append(table)
    return SpanTable(*np.concatenate(tables).T)


def bucket_sizes(paths: Iterable[Path], *, num_buckets: int) -> np.ndarray:
    """How many spans each bucket holds, int64 [num_buckets]."""
    sizes = np.zeros(num_buckets, np.int64)
    for path in paths:
        sizes += np.diff(np.fromfile(path, PLACE, num_buckets + 1))
    return sizes
