"""The spans of a shard come in, in any order; the record file goes to its place, counted.

They go through a folder of the worker, however many there are, and are written as `WriteShard`
writes them on one machine.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bert_keras.storage import json_object
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.beam.output import upload
from tfrecords_tools.beam.spans import SPAN, Spans
from tfrecords_tools.beam.tokens import kept_vocabulary
from tfrecords_tools.records.buckets import write_tables
from tfrecords_tools.records.layout import Layout
from tfrecords_tools.records.write_shard import WriteShard
from tfrecords_tools.text.store import PLACE, TokenWriter
from tfrecords_tools.text.tokens import text_settings

_ROW = np.dtype([*[(name, "<i4") for name in SPAN.names], ("start", PLACE)])


def written(
    place: int, spans: Iterable[Spans], *, layout: Layout, vocabulary: Vocabulary, folder: str
) -> dict:
    """Writes a shard of the split into `folder`; returns what the manifest says of it."""
    buckets, settings = layout.shards[place], layout.settings
    path = kept_vocabulary(vocabulary)
    dtype = text_settings(settings, vocabulary=path).dtype
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        store, instances = work / "store", work / "instances"
        store.mkdir()
        _keep(spans, store, work, dtype=dtype)
        tables = (_table(work / f"bucket-{bucket}") for bucket in buckets)
        write_tables(instances, tables, num_buckets=len(buckets))
        job = WriteShard(
            output=work / layout.file(place),
            counts=work / "counts.json",
            instances=(instances,),
            num_buckets=len(buckets),
            buckets=range(len(buckets)),
            store=store,
            dtype=dtype,
            vocabulary=path,
            schema=settings.schema,
            policy=settings.policy,
            seeds=layout.seeds_of_shard(place),
            size=0,
        )
        job(lambda _: None)
        upload(job.output, folder)
        return json_object(job.counts)


def _keep(spans: Iterable[Spans], store: Path, work: Path, *, dtype: np.dtype) -> None:
    """All pieces go to a store, a span a sentence; the rows of each bucket go to a file."""
    num_pieces = 0
    with TokenWriter(store, dtype=dtype) as writer:
        for data, pieces in spans:
            given = np.frombuffer(data, SPAN)
            lengths = given["length"].astype(np.int64)
            writer.add(np.frombuffer(pieces, dtype), lengths)
            rows = np.empty(len(given), _ROW)
            rows[list(SPAN.names)] = given
            rows["start"] = num_pieces + np.cumsum(lengths) - lengths
            num_pieces += int(lengths.sum())
            for bucket in np.unique(given["bucket"]).tolist():
                with (work / f"bucket-{bucket}").open("ab") as file:
                    file.write(rows[given["bucket"] == bucket].tobytes())
        writer.close()


def _table(path: Path) -> np.ndarray:
    """The rows of a bucket in their order, as `buckets` keeps them: int64 [n,4]."""
    rows = np.fromfile(path, _ROW) if path.exists() else np.empty(0, _ROW)
    rows = rows[np.lexsort([rows[name] for name in ("span", "instance", "part", "unit")])]
    numbers = np.stack([rows[name] for name in ("unit", "part", "instance")])
    is_next = np.any(np.diff(numbers, prepend=numbers[:, :1]), axis=0)
    start = rows["start"]
    return np.stack([np.cumsum(is_next), rows["label"], start, start + rows["length"]], axis=1)
