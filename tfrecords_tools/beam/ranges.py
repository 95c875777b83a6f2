"""Divides the corpus into ranges of documents, whose spans of instances are sent to shards.

No machine needs the folder of another one. Every worker receives the plan: 40 bytes a range of
documents and 8 bytes a held-out document. A range draws its instances and sends a request for each
of their spans to the range that contains it: to itself, or for a text of another document to the
range of the document and of the start of the text (a fraction of the document), which were drawn.
Spans arrive at the shards in any order and are sorted as in the local build.
"""

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from apache_beam.pvalue import TaggedOutput

from bert_keras.files import file_system
from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import text_entries
from tfrecords_tools.inputs.decoding import Unit, grouped
from tfrecords_tools.records.examples import instances_of, text_at, write_buckets
from tfrecords_tools.records.layout import HELD_OUT, Layout, Range, layout_of, ranges_of, splits_of
from tfrecords_tools.records.shards import WriteShard
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import INDEX_DTYPE, TokenStore, TokenWriter
from tfrecords_tools.text.tokens import TokenizeUnit, store_dtype

Key = tuple[int, int]  # of a range: unit and part; of a shard: split and index
SpanBytes = tuple[bytes, bytes]  # rows of SPAN, and their concatenated tokens

_KEY_NAMES = ["bucket", "unit", "part", "instance", "span", "label"]  # of a span in its split
_KEY = [(name, "<i4") for name in _KEY_NAMES]
SPAN = np.dtype([*_KEY, ("length", "<i4")])
_ROW = np.dtype([*SPAN.descr, ("start", INDEX_DTYPE)])
# `start` is a document if there is a fraction of it, or a token of the range if that is negative.
_TEXT = [("start", "<i8"), ("fraction", "<f8"), ("num_tokens", "<i8")]
REQUEST = np.dtype([*_KEY, ("split", "<i4"), *_TEXT])
_BATCH_TOKENS = 1 << 20  # about; of one element that is sent to a shard
_BATCH_BYTES = 1 << 22  # of requests that are answered at once
REPORTS = "reports"  # the name of an output of `tokenized_ranges`


@dataclass(frozen=True)
class Job:
    """The values that every step receives."""

    fingerprints: tuple[dict[str, Any], ...]  # of the inputs
    vocabulary: Vocabulary
    settings: BuildSettings
    partial: str  # the folder that the job writes to before it gets the name `output`
    output: str


@dataclass(frozen=True)
class RangeTokens:
    """The part of a token store that a range needs; it is read like a `TokenStore`.

    Numbers are those within the unit, for documents until `Plan.renumbered`. If a document has
    several ranges, each also contains the following sentences of a text that begins in it.
    """

    range: Range
    dtype: np.dtype
    starts: bytes  # int64, the first sentence of each document, and the end of the last one
    bounds: bytes  # int64, the first token of each sentence, and the end of the last one
    ids: bytes

    @classmethod
    def of(cls, store: TokenStore, documents: Range, *, longest: int) -> "RangeTokens":
        """Reads a range from a store; `longest` is the largest number of tokens of a text."""
        starts = store.documents(documents.first, documents.last)
        bounds = store.sentences(documents.start, min(starts[-1], documents.end + longest))
        ids = store.tokens(bounds[0], bounds[-1])
        return cls(documents, store.dtype, starts.tobytes(), bounds.tobytes(), ids)

    def documents(self, first: int, last: int) -> memoryview:
        """Same as `TokenStore.documents`."""
        starts = memoryview(self.starts).cast("q")
        return starts[first - self.range.first : last - self.range.first + 1]

    def sentences(self, first: int, last: int) -> memoryview:
        """Same as `TokenStore.sentences`, but returns fewer if the range ends before `last`."""
        bounds = memoryview(self.bounds).cast("q")
        return bounds[first - self.range.start : last - self.range.start + 1]

    def tokens(self, start: int, end: int) -> bytes:
        """Same as `TokenStore.tokens`."""
        size, first = self.dtype.itemsize, memoryview(self.bounds).cast("q")[0]
        return self.ids[(start - first) * size : (end - first) * size]


class UnitReport(NamedTuple):
    """What the plan needs of a tokenized unit."""

    unit: int
    result: dict[str, Any]  # of `TokenizeUnit`
    sizes: np.ndarray  # int64 [2,D]: the number of sentences and of tokens of each document
    ranges: tuple[Range, ...]


def tokenized_ranges(numbered: tuple[int, Unit], job: Job) -> Iterator:
    """Yields the ranges of a unit in order by their keys, and then its report to `REPORTS`."""
    (number, unit), settings = numbered, job.settings
    with tempfile.TemporaryDirectory() as work:
        folder, vocabulary = Path(work) / "tokens", local_vocabulary(job.vocabulary)
        result = TokenizeUnit(unit, folder, vocabulary, settings)()
        store = TokenStore(folder)
        ranges = [each._replace(unit=number) for each in ranges_of(store, [store.num_documents])]
        for each in ranges:
            yield each[:2], RangeTokens.of(store, each, longest=settings.max_length)
        starts = np.array(store.documents(0, store.num_documents))
        first_tokens = np.array(store.sentences(0, store.num_sentences))[starts]
        sizes = np.stack([np.diff(starts), np.diff(first_tokens)])
        yield TaggedOutput(REPORTS, UnitReport(number, result, sizes, tuple(ranges)))


@cache
def local_vocabulary(vocabulary: Vocabulary) -> Path:
    """Writes the vocabulary to a temporary folder of this worker, which cannot read the file."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_vocabulary(vocabulary, Path(folder))


class RangeTable(NamedTuple):
    """The R ranges of the corpus in order, int64 [R] each."""

    units: np.ndarray
    parts: np.ndarray
    first_documents: np.ndarray  # numbered over the corpus
    starts: np.ndarray  # first sentence, numbered within the unit
    ends: np.ndarray

    def indices_of(self, documents: np.ndarray, fractions: np.ndarray) -> np.ndarray:
        """Returns the ranges, int64 [n], with the sentences at `fractions` of `documents`."""
        last = np.searchsorted(self.first_documents, documents, side="right") - 1
        first = np.searchsorted(self.first_documents, self.first_documents[last])
        for n in np.flatnonzero(first < last):  # a document in several ranges
            start, end = self.starts[first[n]], self.ends[last[n]]
            sentence = start + int(fractions[n] * (end - start))
            starts = self.starts[first[n] : last[n] + 1]
            last[n] = first[n] - 1 + np.searchsorted(starts, sentence, side="right")
        return last


@dataclass(frozen=True)
class Plan:
    """The numbers of all documents, and the distribution of the records over shards."""

    entries: dict[str, Any]  # of the manifest, about the text
    first_documents: np.ndarray  # int64: of each unit
    ranges: RangeTable
    layouts: tuple[Layout, ...]  # of each split

    def renumbered(self, tokens: RangeTokens) -> RangeTokens:
        """Returns a range with documents numbered over the corpus instead of the unit."""
        documents, offset = tokens.range, int(self.first_documents[tokens.range.unit])
        first, last = documents.first + offset, documents.last + offset
        return replace(tokens, range=documents._replace(first=first, last=last))


def plan_of(reports: Sequence[UnitReport], job: Job) -> Plan:
    """Plans the records from the reports of all units, which may be in any order."""
    reports = sorted(reports, key=attrgetter("unit"))
    entries = text_entries(report.result for report in reports)
    sizes = np.concatenate([report.sizes for report in reports], axis=1)
    counts = np.array([report.sizes.shape[1] for report in reports], np.int64)
    first_documents = np.cumsum(counts) - counts
    rows = [
        (each.unit, each.part, first_documents[each.unit] + each.first, each.start, each.end)
        for report in reports
        for each in report.ranges
    ]
    settings, layouts = job.settings, []
    separators = job.vocabulary.specials.num_separators
    for split in splits_of(
        sizes.shape[1], held_out_rate=settings.held_out_rate, seed=settings.seed
    ):
        held_out = sizes[:, np.array(split.held_out, np.int64)].sum(axis=1)
        size = held_out if split.name == HELD_OUT else sizes.sum(axis=1) - held_out
        options = {"settings": settings, "num_separators": separators}
        layouts.append(layout_of(split, *size.tolist(), **options))
    columns = np.array(rows, np.int64).reshape(-1, len(RangeTable._fields)).T
    return Plan(entries, first_documents, RangeTable(*columns), tuple(layouts))


def requests_of_range(keyed: tuple[Key, RangeTokens], plan: Plan) -> Iterator[tuple[Key, bytes]]:
    """Draws the instances of a range and yields requests, rows of REQUEST, for ranges."""
    here, tokens = keyed[0], plan.renumbered(keyed[1])
    for split, layout in enumerate(plan.layouts):
        generator = np.random.default_rng(layout.seeds_of_range(tokens.range))
        random = Random(int(generator.integers(2**62)))
        instances = list(
            instances_of(layout, tokens.range, tokens, random=random, text_at=lambda *text: text)
        )
        buckets = generator.integers(layout.num_buckets, size=len(instances)).tolist()
        rows = np.array(
            [
                (buckets[n], *here, n, index, label, split,
                 *(text if len(text) == 3 else (text[0], -1, text[1] - text[0])))
                for n, (texts, label) in enumerate(instances)
                for index, text in enumerate(texts)
            ],
            REQUEST,
        )  # fmt: skip
        others = rows[rows["fraction"] >= 0]
        yield here, rows[rows["fraction"] < 0].tobytes()
        ranges = plan.ranges.indices_of(others["start"], others["fraction"])
        for index in np.unique(ranges).tolist():
            key = int(plan.ranges.units[index]), int(plan.ranges.parts[index])
            yield key, others[ranges == index].tobytes()


def requested_spans(
    keyed: tuple[Key, dict[str, Any]], plan: Plan
) -> Iterator[tuple[Key, SpanBytes]]:
    """Yields the texts of a range that were requested, with their shards."""
    (tokens,) = map(plan.renumbered, keyed[1]["ranges"])
    for batch in grouped(keyed[1]["requests"], size_of=len, most=_BATCH_BYTES):
        rows = np.frombuffer(b"".join(batch), REQUEST)
        spans = np.array(
            [
                (start, start + size) if fraction < 0 else text_at(tokens, start, fraction, size)
                for start, fraction, size in rows[[name for name, _ in _TEXT]].tolist()
            ]
        )
        for split, layout in enumerate(plan.layouts):
            in_split = rows["split"] == split
            for shard, data in _by_shard(rows[in_split], spans[in_split], tokens, layout):
                yield (split, shard), data


def _by_shard(
    rows: np.ndarray, spans: np.ndarray, tokens: RangeTokens, layout: Layout
) -> Iterator[tuple[int, SpanBytes]]:
    """Groups spans, int64 [n,2], by shard; each group has about `_BATCH_TOKENS` tokens."""
    step = layout.num_buckets // len(layout.shards)
    shards = rows["bucket"] // step
    order = np.argsort(shards, kind="stable")
    rows, shards, (starts, ends) = rows[order], shards[order], spans[order].T
    blocks = np.cumsum(ends - starts) // _BATCH_TOKENS
    splits = np.flatnonzero((np.diff(shards) != 0) | np.diff(blocks)) + 1
    for group in np.split(np.arange(len(rows)), splits) if len(rows) else ():
        data = np.empty(len(group), SPAN)
        data[_KEY_NAMES] = rows[group][_KEY_NAMES]
        data["length"] = ends[group] - starts[group]
        bounds = zip(starts[group].tolist(), ends[group].tolist(), strict=True)
        token_bytes = b"".join([tokens.tokens(start, end) for start, end in bounds])
        yield int(shards[group[0]]), (data.tobytes(), token_bytes)


def write_shard(
    keyed: tuple[Key, Iterable[SpanBytes]], plan: Plan, job: Job
) -> tuple[Key, dict[str, Any]]:
    """Writes a shard of a split and returns its entry of the manifest."""
    (split, shard), spans = keyed
    layout, path = plan.layouts[split], local_vocabulary(job.vocabulary)
    dtype = store_dtype(layout.settings, path)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _store_spans(spans, work, dtype=dtype)
        tables = (_table(work / f"bucket-{bucket}") for bucket in range(layout.num_buckets))
        write_buckets(work / "instances", tables, num_buckets=layout.num_buckets)
        write = WriteShard(
            output=work / layout.file(shard),
            instances=(work / "instances",),
            layout=layout,
            shard=shard,
            store=work / "store",
            vocabulary=path,
            size=0,
        )
        entry = write()
        system, target = file_system(f"{job.partial}/{write.output.name}")
        part = f"{target}.{uuid.uuid4().hex}.part"  # a runner may run a step twice at a time
        system.put_file(str(write.output), part)
        system.mv(part, target)
        return (split, shard), entry


def _store_spans(spans: Iterable[SpanBytes], work: Path, *, dtype: np.dtype) -> None:
    """Writes the tokens to a store, a sentence for each span, and the rows to a file a bucket."""
    num_tokens = 0
    with TokenWriter(work / "store", dtype=dtype) as writer:
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


def _table(path: Path) -> np.ndarray:
    """Returns the sorted rows of a bucket in the format of `records.examples`: int64 [n,4]."""
    rows = np.fromfile(path, _ROW) if path.exists() else np.empty(0, _ROW)
    rows = rows[np.lexsort([rows[name] for name in ("span", "instance", "part", "unit")])]
    numbers = np.stack([rows[name] for name in ("unit", "part", "instance")])
    is_next = np.any(np.diff(numbers, prepend=numbers[:, :1]), axis=0)
    start = rows["start"]
    return np.stack([np.cumsum(is_next), rows["label"], start, start + rows["length"]], axis=1)
