"""Runs an Apache Beam job that writes a folder of records, from a corpus of any size.

Each shard has the same bytes as with `tfrecords_tools.build.build`. The runner repeats a failed
step. A job that was stopped as a whole starts from the beginning.

The steps: units -> ranges of documents as ids -> instances, as requests for spans of ranges -> the
requested spans -> shards -> the manifest and the final name of the folder. Only counts are
collected in one process, for the plan that every worker receives. A range requests each span of its
instances from the range that contains it. Spans are sorted at the shards as in the local build.
"""

import json
import os
import pickle
import tempfile
import uuid
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsList, AsSingleton, TaggedOutput

from bert_keras.errors import InputError
from bert_keras.files import StrPath, file_system, open_file
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import text_entries
from tfrecords_tools.corpus import build_units, check_outside, corpus_files, input_entry
from tfrecords_tools.instances import Layout, check_shards, draw_instances, plan_layouts, shard_file
from tfrecords_tools.readers import Unit
from tfrecords_tools.settings import MANIFEST, BuildSettings, Settings, folder_files, manifest_head
from tfrecords_tools.shards import WriteShard
from tfrecords_tools.store import (
    Range,
    TokenSource,
    TokenStore,
    TokenWriter,
    ranges_of,
    write_buckets,
)
from tfrecords_tools.tokens import TokenizeUnit, store_dtype

RangeKey = tuple[int, int]  # unit and part
ShardKey = tuple[int, int]  # index of a split, and of a shard in the split
# Keys whose order is the order of the spans in the local build: bucket, unit, part, index of the
# instance in the range, index of the span in the instance. The label of the instance follows.
SpanKey = tuple[int, int, int, int, int, int]
# The index of a split, the key of a span, and its text: either the first token and the end, or the
# arguments of `TokenSource.text_at`.
Request = tuple[int, SpanKey, tuple[int, int] | tuple[int, float, int]]
Span = tuple[SpanKey, bytes]  # the key of a span and its tokens
REPORTS = "reports"  # the name of an output of `tokenize_ranges`


@dataclass(frozen=True)
class StepContext:
    """The values that every step receives."""

    paths: tuple[str, ...]  # the input files
    vocabulary: Vocabulary
    settings: BuildSettings
    partial: str  # the folder that the job writes to before it gets the name `output`
    output: str


def build_on_beam(
    corpus: Iterable[StrPath],
    *,
    vocabulary: Vocabulary,
    output: StrPath,
    settings: Settings,
    pipeline_options: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs the pipeline that writes `output` and returns the manifest.

    The job writes to OUTPUT.beam-partial first.

    Args:
        corpus, vocabulary, settings: As in `build`, but not `GoogleSettings`.
        output: A new folder or URL. Every worker must have access to it and to the corpus.
        pipeline_options: Options of Beam, such as "--runner=DataflowRunner".
    """
    if not isinstance(settings, BuildSettings):
        raise InputError("one machine writes the records of --compat google; leave out --beam")
    settings = settings.for_vocabulary(vocabulary)
    pipeline = beam.Pipeline(options=PipelineOptions(list(pipeline_options)))
    corpus = list(corpus)
    check_outside(output, corpus)
    paths = corpus_files(corpus)  # the pipeline's options may configure the access to them
    output = os.fspath(output).rstrip("/")
    partial = f"{output}.beam-partial"
    system, folder = file_system(partial)
    for path in (output, partial):
        name = file_system(path)[1]
        if system.isfile(name) or (system.isdir(name) and system.ls(name)):
            raise InputError(f"{path} exists already; choose another name or remove it first")
    system.makedirs(folder, exist_ok=True)
    system.touch(f"{folder}/running")  # some file systems have no empty folders
    context = StepContext(tuple(paths), vocabulary, settings, partial, output)
    try:
        add_steps(pipeline, build_units(paths, text_field=settings.text_field), context)
        pipeline.run().wait_until_finish()
    finally:
        if system.exists(folder):
            system.rm(folder, recursive=True)
    with open_file(f"{output}/{MANIFEST}") as file:
        return json.load(file)


def add_steps(pipeline: beam.Pipeline, units: Sequence[Unit], context: StepContext) -> None:
    """Adds all steps from the units to the folder `context.output`."""
    ranges, reports = (
        pipeline
        | "units" >> beam.Create(list(enumerate(units)))
        | "spread units" >> beam.Reshuffle()
        | "tokenize" >> beam.FlatMap(tokenize_ranges, context).with_outputs(REPORTS, main="ranges")
    )
    ranges |= "store ranges" >> beam.Reshuffle()  # several steps read them; they are computed once
    plan = reports | "all units" >> beam.combiners.ToList() | "plan" >> beam.Map(make_plan, context)
    requests = ranges | "draw instances" >> beam.FlatMap(draw_requests, AsSingleton(plan))
    shards = (
        {"ranges": ranges, "requests": requests}
        | "group requests" >> beam.CoGroupByKey()
        | "read spans" >> beam.FlatMap(read_requested_spans, AsSingleton(plan))
        | "group spans" >> beam.GroupByKey()
        | "write shards" >> beam.Map(write_shard, AsSingleton(plan), context)
    )
    inputs = (
        pipeline
        | "inputs" >> beam.Create(context.paths)
        | "spread inputs" >> beam.Reshuffle()
        | "digest" >> beam.Map(input_entry)
    )
    _ = (
        pipeline
        | "end" >> beam.Create([context])
        | "finish" >> beam.Map(_finish, AsSingleton(plan), AsList(shards), AsList(inputs))
    )


class RangeTokens(NamedTuple):
    """The part of a token store that a range and the texts that begin in it need."""

    range: Range
    dtype: np.dtype
    tokens: bytes
    sentences: bytes  # int64, the first token of each sentence, and the end of the last one
    documents: bytes  # int64, the first sentence of each document, and the end of the last one


class UnitReport(NamedTuple):
    """The facts about a tokenized unit that the plan needs."""

    unit: int
    result: dict[str, Any]  # returned by `TokenizeUnit`
    sizes: np.ndarray  # int64 [2,D]: the number of sentences and of tokens of each document
    ranges: tuple[Range, ...]


def tokenize_ranges(indexed: tuple[int, Unit], context: StepContext) -> Iterator:
    """Yields (key, tokens) of each range of a unit in order, and then its report to `REPORTS`."""
    (index, unit), settings = indexed, context.settings
    with tempfile.TemporaryDirectory() as work:
        result = TokenizeUnit(unit, Path(work) / "tokens", context.vocabulary, settings)()
        store = TokenStore(Path(work) / "tokens")
        ranges = [each._replace(unit=index) for each in ranges_of(store, [store.num_documents])]
        for each in ranges:
            documents = store.documents(each.first, each.last)
            end = min(documents[-1], each.end + settings.max_length)  # a text may end behind it
            sentences = store.sentences(each.start, end)
            ids = store.tokens(sentences[0], sentences[-1])
            arrays = ids, sentences.tobytes(), documents.tobytes()
            yield each[:2], RangeTokens(each, store.dtype, *arrays)
        report = UnitReport(index, result, store.document_sizes(), tuple(ranges))
        yield TaggedOutput(REPORTS, report)


@dataclass(frozen=True)
class Plan:
    """The indices of all documents, and the distribution of the records over shards."""

    entries: dict[str, Any]  # the manifest's entries about the text
    first_documents: array  # the index in the corpus of the first document of each unit
    ranges: tuple[Range, ...]  # in order, with document indices of the whole corpus
    first_of_range: array  # the first document of each of `ranges`
    layouts: tuple[Layout, ...]  # one for each split

    def open_range(self, tokens: RangeTokens) -> tuple[Range, TokenSource]:
        """Returns a range with document indices of the whole corpus, and its tokens."""
        documents = _in_corpus(tokens.range, self.first_documents)
        source = TokenSource(
            *(tokens.tokens, tokens.sentences, tokens.documents),
            dtype=tokens.dtype,
            first_document=documents.first,
            first_sentence=documents.start,
        )
        return documents, source

    def range_of(self, document: int, fraction: float) -> RangeKey:
        """Returns the range with the sentence at a `fraction` of a document."""
        last = bisect_right(self.first_of_range, document)
        first = bisect_left(self.first_of_range, self.first_of_range[last - 1])
        ranges = self.ranges[first:last]  # several, if each has a part of the document
        sentence = ranges[0].start + int(fraction * (ranges[-1].end - ranges[0].start))
        index = bisect_right(ranges, sentence, key=lambda each: each.start) if ranges[1:] else 1
        return ranges[index - 1][:2]


def _in_corpus(documents: Range, first_documents: Sequence[int]) -> Range:
    offset = first_documents[documents.unit]
    return documents._replace(first=documents.first + offset, last=documents.last + offset)


def make_plan(reports: Sequence[UnitReport], context: StepContext) -> Plan:
    """Plans the records from the reports of all units, which may be in any order."""
    reports = sorted(reports, key=attrgetter("unit"))
    counts = [report.sizes.shape[1] for report in reports]
    first_documents = array("q", accumulate(counts, initial=0))
    ranges = [_in_corpus(each, first_documents) for report in reports for each in report.ranges]
    return Plan(
        entries=text_entries(report.result for report in reports),
        first_documents=first_documents,
        ranges=tuple(ranges),
        first_of_range=array("q", [each.first for each in ranges]),
        layouts=plan_layouts(
            np.concatenate([report.sizes for report in reports], axis=1),
            settings=context.settings,
            num_separators=context.vocabulary.specials.num_separators,
        ),
    )


def draw_requests(
    keyed: tuple[RangeKey, RangeTokens], plan: Plan
) -> Iterator[tuple[RangeKey, bytes]]:
    """Draws the instances of a range and yields pickled lists of requests for texts, by range."""
    here, (documents, source) = keyed[0], plan.open_range(keyed[1])
    requests: dict[RangeKey, list[Request]] = defaultdict(list)
    for split, layout in enumerate(plan.layouts):
        generator = layout.generator(0, documents.unit, documents.part)
        random = Random(int(generator.integers(2**62)))
        instances = list(
            draw_instances(layout, documents, source, random=random, text_at=lambda *text: text)
        )
        buckets = generator.integers(layout.num_buckets, size=len(instances)).tolist()
        for instance, (bucket, (texts, label)) in enumerate(zip(buckets, instances, strict=True)):
            for index, text in enumerate(texts):
                key = here if len(text) == 2 else plan.range_of(text[0], text[1])
                requests[key].append((split, (bucket, *here, instance, index, label), text))
    yield from ((key, pickle.dumps(each)) for key, each in requests.items())


def read_requested_spans(
    keyed: tuple[RangeKey, dict[str, Any]], plan: Plan
) -> Iterator[tuple[ShardKey, bytes]]:
    """Yields pickled lists of the texts of a range that were requested, by shard."""
    ((_, source),) = map(plan.open_range, keyed[1]["ranges"])
    for requests in map(pickle.loads, keyed[1]["requests"]):
        spans: dict[ShardKey, list[Span]] = defaultdict(list)
        for split, key, text in requests:
            start, end = text if len(text) == 2 else source.text_at(*text)
            shard = key[0] // len(plan.layouts[split].shards[0])
            spans[split, shard].append((key, source.tokens(start, end)))
        yield from ((key, pickle.dumps(each)) for key, each in spans.items())


def write_shard(
    keyed: tuple[ShardKey, Iterable[bytes]], plan: Plan, context: StepContext
) -> tuple[ShardKey, dict[str, Any]]:
    """Writes a shard of a split and returns its entry of the manifest."""
    (split, shard), spans = keyed
    layout, dtype = plan.layouts[split], store_dtype(context.settings, context.vocabulary)
    rows: list[Span] = sorted(chain.from_iterable(map(pickle.loads, spans)))
    keys = np.array([key for key, _ in rows])
    tokens = np.frombuffer(b"".join(text for _, text in rows), dtype)
    lengths = np.array([len(text) // dtype.itemsize for _, text in rows])
    ends = np.cumsum(lengths)
    is_next = np.any(np.diff(keys[:, :4], axis=0, prepend=-1), axis=1)  # another instance
    table = np.stack([np.cumsum(is_next), keys[:, 5], ends - lengths, ends], axis=1)
    tables = np.split(table, np.searchsorted(keys[:, 0], np.arange(1, layout.num_buckets)))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with TokenWriter(work / "store", dtype=dtype) as writer:  # a sentence is a span
            writer.add(tokens, lengths)
        write_buckets(work / "instances", tables)
        write = WriteShard(
            output=work / shard_file(layout.split.name, shard, len(layout.shards)),
            instances=(work / "instances",),
            layout=layout,
            shard=shard,
            store_folder=work / "store",
            vocabulary=context.vocabulary,
            size=0,
        )
        entry = write()
        system, target = file_system(f"{context.partial}/{write.output.name}")
        part = f"{target}.{uuid.uuid4().hex}.part"  # a runner may run a step twice at a time
        system.put_file(str(write.output), part)
        system.mv(part, target)
        return (split, shard), entry


def _finish(
    context: StepContext,
    plan: Plan,
    shards: Sequence[tuple[ShardKey, dict]],
    inputs: Sequence[dict],
) -> None:
    """Writes the manifest and gives all files their final names, the manifest last."""
    # A runner may repeat the step: files that have their names are kept.
    system, folder = file_system(context.output)
    partial = file_system(context.partial)[1]
    if not system.exists(partial):
        return
    by_key, splits = dict(shards), {}
    for split, layout in enumerate(plan.layouts):
        keys = [(split, shard) for shard in range(len(layout.shards))]
        has_records = (key in by_key for key in keys)
        check_shards(has_records, split=layout.split.name, num_shards=len(keys))
        splits[layout.split.name] = layout.summary([by_key[key] for key in keys])
    in_order = sorted(inputs, key=lambda each: context.paths.index(each["path"]))
    head = manifest_head(context.settings, context.vocabulary, in_order)
    head["versions"]["apache-beam"] = beam.__version__
    texts = folder_files({**head, **plan.entries, "splits": splits}, context.vocabulary)
    for name, text in texts.items():
        system.pipe_file(f"{partial}/{name}", text.encode())
    system.makedirs(folder, exist_ok=True)
    names = [each["file"] for split in splits.values() for each in split["shards"]]
    for name in (*names, *texts):
        if system.exists(f"{partial}/{name}"):
            system.mv(f"{partial}/{name}", f"{folder}/{name}")
    system.rm(partial, recursive=True)
