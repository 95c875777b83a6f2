"""Finds the spans of instances with their tokens and writes them to shards.

An instance that needs a text of another document draws the document and the start of the text (as a
share of the document), and sends a request to the range that contains it. Spans arrive in any order
and are sorted as in the local build: by unit, part, instance and span.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from bert_keras.storage import json_object
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.beam.output import upload
from tfrecords_tools.beam.plan import Plan, RangeTokens, kept_vocabulary
from tfrecords_tools.inputs.parts import grouped
from tfrecords_tools.records.buckets import write_tables
from tfrecords_tools.records.examples import instances_of, text_of
from tfrecords_tools.records.layout import Layout
from tfrecords_tools.records.write_shard import WriteShard
from tfrecords_tools.text.store import PLACE, TokenWriter
from tfrecords_tools.text.tokens import store_dtype

Key = tuple[int, int]  # of a range: unit and part; of a shard: split and index
Spans = tuple[bytes, bytes]  # rows of SPAN, and their concatenated tokens

_PLACE = [  # of a span within its split
    ("bucket", "<i4"),
    ("unit", "<i4"),
    ("part", "<i4"),
    ("instance", "<i4"),
    ("span", "<i4"),
    ("label", "<i4"),
]
_SPAN = [*_PLACE, ("length", "<i4")]
SPAN = np.dtype(_SPAN)
REQUEST = np.dtype(
    [*_PLACE, ("split", "<i4"), ("document", "<i8"), ("share", "<f8"), ("room", "<i4")]
)
_PLACE_NAMES = [name for name, _ in _PLACE]
_PIECES_TOGETHER = 1 << 20  # about; of one element that is sent to a shard
_REQUESTS_TOGETHER = 1 << 16


class _Request(NamedTuple):
    """A request for a span of another document."""

    document: int
    share: float
    room: int


def found(
    tokens: RangeTokens, plan: Plan
) -> Iterator[tuple[str, Key, Spans] | tuple[str, Key, bytes]]:
    """Yields ("spans", shard, Spans) and ("requests", range, rows of REQUEST) of a range."""
    tokens = plan.corpus.placed(tokens)
    for split, layout in enumerate(plan.layouts):
        generator = np.random.default_rng(layout.seeds_of_range(tokens.range))
        random = Random(int(generator.integers(2**62)))
        instances = instances_of(layout, tokens.range, tokens, random=random, text_of=_Request)
        places, spans, labels = [], [], []
        for number, instance in enumerate(instances):
            for place, span in enumerate(instance.spans):
                places.append((number, place))
                spans.append(span)
            labels.append(instance.label)
        buckets = generator.integers(layout.num_buckets, size=len(labels))
        rows = np.zeros(len(spans), REQUEST)
        rows["instance"], rows["span"] = np.array(places, np.int64).reshape(-1, 2).T
        rows["bucket"] = buckets[rows["instance"]]
        rows["label"] = np.array(labels, np.int64)[rows["instance"]]
        rows["unit"], rows["part"], rows["split"] = tokens.range.unit, tokens.range.part, split
        asked = np.array([isinstance(span, _Request) for span in spans], bool)
        own = np.array([s for s in spans if not isinstance(s, _Request)], np.int64).reshape(-1, 2)
        for shard, data in _by_shard(rows[~asked], own, tokens, layout):
            yield "spans", (split, shard), data
        others = [span for span in spans if isinstance(span, _Request)]
        for key, data in _by_range(rows[asked], others, plan):
            yield "requests", key, data


def answered(
    tokens: RangeTokens, requests: Iterable[bytes], plan: Plan
) -> Iterator[tuple[Key, Spans]]:
    """Yields the texts of this range that other ranges requested, with their shards."""
    tokens = plan.corpus.placed(tokens)
    most = _REQUESTS_TOGETHER * REQUEST.itemsize
    for together in grouped(requests, size_of=len, most=most):
        rows = np.frombuffer(b"".join(together), REQUEST)
        asked = zip(
            rows["document"].tolist(), rows["share"].tolist(), rows["room"].tolist(), strict=True
        )
        spans = np.array([text_of(tokens, *each) for each in asked], np.int64)
        for split, layout in enumerate(plan.layouts):
            own = rows["split"] == split
            for shard, data in _by_shard(rows[own], spans[own], tokens, layout):
                yield (split, shard), data


def _by_range(
    rows: np.ndarray, spans: Sequence[_Request], plan: Plan
) -> Iterator[tuple[Key, bytes]]:
    """Groups requests by the range that contains the requested text."""
    if not spans:
        return
    rows["document"], rows["share"], rows["room"] = zip(*spans, strict=True)
    table = plan.corpus.ranges
    ranges = table.holding(rows["document"], rows["share"])
    order = np.argsort(ranges, kind="stable")
    begins = np.flatnonzero(np.diff(ranges[order], prepend=-1))
    for together in np.split(order, begins[1:]):
        number = ranges[together[0]]
        yield (int(table.units[number]), int(table.parts[number])), rows[together].tobytes()


def _by_shard(
    rows: np.ndarray, spans: np.ndarray, tokens: RangeTokens, layout: Layout
) -> Iterator[tuple[int, Spans]]:
    """Groups spans, int64 [n,2], by shard; each group has about `_PIECES_TOGETHER` tokens."""
    if not len(rows):
        return
    ends = np.array([buckets.stop for buckets in layout.shards])
    shards = np.searchsorted(ends, rows["bucket"], side="right")
    order = np.argsort(shards, kind="stable")
    rows, shards, (starts, ends) = rows[order], shards[order], spans[order].T
    blocks = np.cumsum(ends - starts) // _PIECES_TOGETHER
    begins = np.flatnonzero((np.diff(shards, prepend=-1) != 0) | np.diff(blocks, prepend=-1))
    for together in np.split(np.arange(len(rows)), begins[1:]):
        data = np.empty(len(together), SPAN)
        data[_PLACE_NAMES] = rows[together][_PLACE_NAMES]
        data["length"] = ends[together] - starts[together]
        places = zip(starts[together].tolist(), ends[together].tolist(), strict=True)
        pieces = b"".join([tokens.pieces(start, end) for start, end in places])
        yield int(shards[together[0]]), (data.tobytes(), pieces)


_ROW = np.dtype([*_SPAN, ("start", PLACE)])


def written(
    place: int, spans: Iterable[Spans], *, layout: Layout, vocabulary: Vocabulary, folder: str
) -> dict:
    """Writes a shard of the split to `folder` and returns its entry of the manifest."""
    path = kept_vocabulary(vocabulary)
    dtype = store_dtype(layout.settings, path)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        store, instances = work / "store", work / "instances"
        store.mkdir()
        _keep(spans, store, work, dtype=dtype)
        tables = (_table(work / f"bucket-{bucket}") for bucket in range(layout.num_buckets))
        write_tables(instances, tables, num_buckets=layout.num_buckets)
        job = WriteShard(
            output=work / layout.file(place),
            counts=work / "counts.json",
            instances=(instances,),
            layout=layout,
            place=place,
            store=store,
            vocabulary=path,
            size=0,
        )
        job(lambda _: None)
        upload(job.output, folder)
        return json_object(job.counts)


def _keep(spans: Iterable[Spans], store: Path, work: Path, *, dtype: np.dtype) -> None:
    """Writes the tokens to a store, a sentence for each span, and the rows to a file a bucket."""
    num_pieces = 0
    with TokenWriter(store, dtype=dtype) as writer:
        for data, pieces in spans:
            given = np.frombuffer(data, SPAN)
            lengths = given["length"].astype(np.int64)
            writer.add(np.frombuffer(pieces, dtype), lengths)
            rows = np.empty(len(given), _ROW)
            rows[[name for name, _ in _SPAN]] = given
            rows["start"] = num_pieces + np.cumsum(lengths) - lengths
            num_pieces += int(lengths.sum())
            for bucket in np.unique(given["bucket"]).tolist():
                with (work / f"bucket-{bucket}").open("ab") as file:
                    file.write(rows[given["bucket"] == bucket].tobytes())
        writer.close()


def _table(path: Path) -> np.ndarray:
    """Returns the sorted rows of a bucket in the format of `records.buckets`: int64 [n,4]."""
    rows = np.fromfile(path, _ROW) if path.exists() else np.empty(0, _ROW)
    rows = rows[np.lexsort([rows[name] for name in ("span", "instance", "part", "unit")])]
    numbers = np.stack([rows[name] for name in ("unit", "part", "instance")])
    is_next = np.any(np.diff(numbers, prepend=numbers[:, :1]), axis=0)
    start = rows["start"]
    return np.stack([np.cumsum(is_next), rows["label"], start, start + rows["length"]], axis=1)
