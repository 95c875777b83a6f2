"""Finds the spans of instances with their tokens and writes them to shards.

An instance that needs a text of another document draws the document and the start of the text (as a
fraction of the document), and sends a request to the range that contains it. Spans arrive in any
order and are sorted as in the local build: by unit, part, instance and span.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from bert_keras.files import json_object
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.beam.plan import Plan, RangeTokens, local_vocabulary
from tfrecords_tools.beam.shared_folder import upload
from tfrecords_tools.inputs.parts import grouped
from tfrecords_tools.records.buckets import write_tables
from tfrecords_tools.records.examples import instances_of, text_at
from tfrecords_tools.records.layout import Layout
from tfrecords_tools.records.write_shard import WriteShard
from tfrecords_tools.text.store import INDEX_DTYPE, TokenWriter
from tfrecords_tools.text.tokens import store_dtype

Key = tuple[int, int]  # of a range: unit and part; of a shard: split and index
SpanBytes = tuple[bytes, bytes]  # rows of SPAN, and their concatenated tokens

_KEY_NAMES = ["bucket", "unit", "part", "instance", "span", "label"]  # of a span in its split
_KEY = [(name, "<i4") for name in _KEY_NAMES]
SPAN = np.dtype([*_KEY, ("length", "<i4")])
REQUEST = np.dtype(
    [*_KEY, ("split", "<i4"), ("document", "<i8"), ("fraction", "<f8"), ("num_tokens", "<i4")]
)
_BATCH_TOKENS = 1 << 20  # about; of one element that is sent to a shard
_BATCH_REQUESTS = 1 << 16


class _Request(NamedTuple):
    """A request for a span of another document."""

    document: int
    fraction: float
    num_tokens: int


def spans_of_range(
    tokens: RangeTokens, plan: Plan
) -> Iterator[tuple[str, Key, SpanBytes] | tuple[str, Key, bytes]]:
    """Yields ("spans", shard, Spans) and ("requests", range, rows of REQUEST) of a range."""
    tokens = plan.corpus.renumbered(tokens)
    for split, layout in enumerate(plan.layouts):
        generator = np.random.default_rng(layout.seeds_of_range(tokens.range))
        random = Random(int(generator.integers(2**62)))
        instances = instances_of(layout, tokens.range, tokens, random=random, text_at=_Request)
        keys, spans, labels = [], [], []
        for number, instance in enumerate(instances):
            for index, span in enumerate(instance.spans):
                keys.append((number, index))
                spans.append(span)
            labels.append(instance.label)
        buckets = generator.integers(layout.num_buckets, size=len(labels))
        rows = np.zeros(len(spans), REQUEST)
        rows["instance"], rows["span"] = np.array(keys, np.int64).reshape(-1, 2).T
        rows["bucket"] = buckets[rows["instance"]]
        rows["label"] = np.array(labels, np.int64)[rows["instance"]]
        rows["unit"], rows["part"], rows["split"] = tokens.range.unit, tokens.range.part, split
        is_request = np.array([isinstance(span, _Request) for span in spans], bool)
        local = np.array([s for s in spans if not isinstance(s, _Request)], np.int64).reshape(-1, 2)
        for shard, data in _by_shard(rows[~is_request], local, tokens, layout):
            yield "spans", (split, shard), data
        requests = [span for span in spans if isinstance(span, _Request)]
        for key, data in _by_range(rows[is_request], requests, plan):
            yield "requests", key, data


def requested_spans(
    tokens: RangeTokens, requests: Iterable[bytes], plan: Plan
) -> Iterator[tuple[Key, SpanBytes]]:
    """Yields the texts of this range that other ranges requested, with their shards."""
    tokens = plan.corpus.renumbered(tokens)
    most = _BATCH_REQUESTS * REQUEST.itemsize
    for batch in grouped(requests, size_of=len, most=most):
        rows = np.frombuffer(b"".join(batch), REQUEST)
        texts = rows[list(_Request._fields)].tolist()
        spans = np.array([text_at(tokens, *text) for text in texts], np.int64)
        for split, layout in enumerate(plan.layouts):
            in_split = rows["split"] == split
            for shard, data in _by_shard(rows[in_split], spans[in_split], tokens, layout):
                yield (split, shard), data


def _by_range(
    rows: np.ndarray, requests: Sequence[_Request], plan: Plan
) -> Iterator[tuple[Key, bytes]]:
    """Groups requests by the range that contains the requested text."""
    if not requests:
        return
    for name, values in zip(_Request._fields, zip(*requests, strict=True), strict=True):
        rows[name] = values
    table = plan.corpus.ranges
    ranges = table.indices_of(rows["document"], rows["fraction"])
    order = np.argsort(ranges, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(ranges[order])) + 1):
        index = ranges[group[0]]
        yield (int(table.units[index]), int(table.parts[index])), rows[group].tobytes()


def _by_shard(
    rows: np.ndarray, spans: np.ndarray, tokens: RangeTokens, layout: Layout
) -> Iterator[tuple[int, SpanBytes]]:
    """Groups spans, int64 [n,2], by shard; each group has about `_BATCH_TOKENS` tokens."""
    if not len(rows):
        return
    ends = np.array([buckets.stop for buckets in layout.shards])
    shards = np.searchsorted(ends, rows["bucket"], side="right")
    order = np.argsort(shards, kind="stable")
    rows, shards, (starts, ends) = rows[order], shards[order], spans[order].T
    blocks = np.cumsum(ends - starts) // _BATCH_TOKENS
    splits = np.flatnonzero((np.diff(shards) != 0) | np.diff(blocks)) + 1
    for group in np.split(np.arange(len(rows)), splits):
        data = np.empty(len(group), SPAN)
        data[_KEY_NAMES] = rows[group][_KEY_NAMES]
        data["length"] = ends[group] - starts[group]
        bounds = zip(starts[group].tolist(), ends[group].tolist(), strict=True)
        token_bytes = b"".join([tokens.tokens(start, end) for start, end in bounds])
        yield int(shards[group[0]]), (data.tobytes(), token_bytes)


_ROW = np.dtype([*SPAN.descr, ("start", INDEX_DTYPE)])


def write_shard(
    shard: int, spans: Iterable[SpanBytes], *, layout: Layout, vocabulary: Vocabulary, folder: str
) -> dict:
    """Writes a shard of the split to `folder` and returns its entry of the manifest."""
    path = local_vocabulary(vocabulary)
    dtype = store_dtype(layout.settings, path)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        store, instances = work / "store", work / "instances"
        store.mkdir()
        _store_spans(spans, store, work, dtype=dtype)
        tables = (_table(work / f"bucket-{bucket}") for bucket in range(layout.num_buckets))
        write_tables(instances, tables, num_buckets=layout.num_buckets)
        job = WriteShard(
            output=work / layout.file(shard),
            counts=work / "counts.json",
            instances=(instances,),
            layout=layout,
            shard=shard,
            store=store,
            vocabulary=path,
            size=0,
        )
        job(lambda _: None)
        upload(job.output, folder)
        return json_object(job.counts)


def _store_spans(spans: Iterable[SpanBytes], store: Path, work: Path, *, dtype: np.dtype) -> None:
    """Writes the tokens to a store, a sentence for each span, and the rows to a file a bucket."""
    num_tokens = 0
    with TokenWriter(store, dtype=dtype) as writer:
        for data, tokens in spans:
            keys = np.frombuffer(data, SPAN)
            lengths = keys["length"].astype(np.int64)
            writer.add(np.frombuffer(tokens, dtype), lengths)
            rows = np.empty(len(keys), _ROW)
            rows[[*_KEY_NAMES, "length"]] = keys
            rows["start"] = num_tokens + np.cumsum(lengths) - lengths
            num_tokens += int(lengths.sum())
            for bucket in np.unique(keys["bucket"]).tolist():
                with (work / f"bucket-{bucket}").open("ab") as file:
                    file.write(rows[keys["bucket"] == bucket].tobytes())
        writer.close()


def _table(path: Path) -> np.ndarray:
    """Returns the sorted rows of a bucket in the format of `records.buckets`: int64 [n,4]."""
    rows = np.fromfile(path, _ROW) if path.exists() else np.empty(0, _ROW)
    rows = rows[np.lexsort([rows[name] for name in ("span", "instance", "part", "unit")])]
    numbers = np.stack([rows[name] for name in ("unit", "part", "instance")])
    is_next = np.any(np.diff(numbers, prepend=numbers[:, :1]), axis=0)
    start = rows["start"]
    return np.stack([np.cumsum(is_next), rows["label"], start, start + rows["length"]], axis=1)
