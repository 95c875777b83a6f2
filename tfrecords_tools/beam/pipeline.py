"""Defines the steps of the Beam pipeline, from units of the corpus to a folder of records.

The steps: units -> ranges of documents as ids -> spans of instances, and requests for texts of
other ranges -> the requested texts -> shards -> the manifest and the final name of the folder. Only
counts are collected in one process; they decide how documents are numbered and split and how the
records are distributed.

A step does not raise an error that the user can cause, because the runner would repeat the step.
Instead it returns a value (order, sentence). The job then ends early and writes the first of these
to the file FAILURE.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton, TaggedOutput

from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import vocabulary_file
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.beam import shared_folder
from tfrecords_tools.beam.plan import (
    Corpus,
    Plan,
    RangeTokens,
    UnitReport,
    corpus_of,
    held_out_size,
    plan_of,
    tokenized_ranges,
)
from tfrecords_tools.beam.spans import Key, SpanBytes, requested_spans, spans_of_range, write_shard
from tfrecords_tools.inputs.corpus import digest, fingerprint
from tfrecords_tools.inputs.parts import Unit
from tfrecords_tools.manifest import MANIFEST, known_entries
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.tfds_metadata import tfds_metadata

FAILURE = "failure.json"
_FAILURES, _UNITS, _REQUESTS = "failures", "units", "requests"


@dataclass(frozen=True)
class StepContext:
    """The values that every step receives."""

    fingerprints: tuple[dict, ...]  # of the inputs
    vocabulary: Vocabulary
    settings: BuildSettings
    partial: str  # the folder that the job writes to before it gets the name `output`
    output: str


def add_steps(pipeline: beam.Pipeline, units: Sequence[Unit], job: StepContext) -> None:
    """Adds all steps from the units to the folder `job.output`."""
    ranges, reports, unreadable = (
        pipeline
        | "units" >> beam.Create(list(enumerate(units)))
        | "spread units" >> beam.Reshuffle()
        | "tokenise" >> beam.FlatMap(_tokenize, job).with_outputs(_UNITS, _FAILURES, main="ranges")
    )
    ranges |= "store ranges" >> beam.Reshuffle()  # several steps read them; they are computed once
    corpus, no_corpus = (
        reports
        | "all units" >> beam.combiners.ToList()
        | "number documents"
        >> beam.FlatMap(_number, AsList(unreadable), job).with_outputs(_FAILURES, main="corpus")
    )
    is_split = job.settings.held_out_rate > 0
    plan, no_plan = (
        (ranges if is_split else pipeline | "nothing held out" >> beam.Create([]))
        | "size splits" >> beam.Map(_size, AsSingleton(corpus, None))
        | "sum sizes" >> beam.CombineGlobally(_summed)
        | "plan"
        >> beam.FlatMap(_plan, AsSingleton(corpus, None), job).with_outputs(_FAILURES, main="plan")
    )
    plan_input = AsSingleton(plan, None)
    spans, requests = ranges | "find spans" >> beam.FlatMap(_find, plan_input).with_outputs(
        _REQUESTS, main="spans"
    )
    requested = (
        {"ranges": ranges, _REQUESTS: requests}
        | "group requests" >> beam.CoGroupByKey()
        | "read requested spans" >> beam.FlatMap(_requested_spans, plan_input)
    )
    shards = (
        (spans, requested)
        | "all spans" >> beam.Flatten()
        | "group spans" >> beam.GroupByKey()
        | "write shards" >> beam.Map(_write, plan_input, job)
    )
    inputs = (
        pipeline
        | "inputs" >> beam.Create(list({each["path"] for each in job.fingerprints}))
        | "spread inputs" >> beam.Reshuffle()
        | "digest" >> beam.Map(digest)
    )
    failures = (unreadable, no_corpus, no_plan) | "all failures" >> beam.Flatten()
    _ = (
        pipeline
        | "end" >> beam.Create([job])
        | "finish"
        >> beam.Map(_finish, plan_input, AsList(shards), AsList(inputs), AsList(failures))
    )


def _tokenize(numbered: tuple[int, Unit], job: StepContext) -> Iterator:
    number, unit = numbered
    try:
        for result in tokenized_ranges(
            number, unit, vocabulary=job.vocabulary, settings=job.settings
        ):
            if isinstance(result, UnitReport):
                yield TaggedOutput(_UNITS, result)
            else:
                yield (result.range.unit, result.range.part), result
    except InputError as error:
        yield TaggedOutput(_FAILURES, (number, str(error)))


def _number(units: Sequence[UnitReport], failures: Sequence, job: StepContext) -> Iterator:
    if failures:
        return
    try:
        yield corpus_of(units, settings=job.settings)
    except InputError as error:
        yield TaggedOutput(_FAILURES, (0, str(error)))


def _size(keyed: tuple[Key, RangeTokens], corpus: Corpus | None) -> tuple[int, int]:
    return held_out_size(keyed[1], corpus) if corpus else (0, 0)


def _summed(sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    num_sentences, num_tokens = zip((0, 0), *sizes, strict=True)
    return sum(num_sentences), sum(num_tokens)


def _plan(held_out: tuple[int, int], corpus: Corpus | None, job: StepContext) -> Iterator:
    if corpus is None:
        return
    separators = job.vocabulary.specials.num_separators
    try:
        yield plan_of(corpus, held_out, settings=job.settings, num_separators=separators)
    except InputError as error:
        yield TaggedOutput(_FAILURES, (0, str(error)))


def _find(keyed: tuple[Key, RangeTokens], plan: Plan | None) -> Iterator:
    for kind, key, data in spans_of_range(keyed[1], plan) if plan else ():
        yield TaggedOutput(_REQUESTS, (key, data)) if kind == _REQUESTS else (key, data)


def _requested_spans(
    grouped: tuple[Key, dict], plan: Plan | None
) -> Iterator[tuple[Key, SpanBytes]]:
    if plan is None:
        return
    for tokens in grouped[1]["ranges"]:
        yield from requested_spans(tokens, grouped[1][_REQUESTS], plan)


def _write(
    grouped: tuple[Key, Iterable[SpanBytes]], plan: Plan, job: StepContext
) -> tuple[Key, dict]:
    (split, shard), spans = grouped
    layout = plan.layouts[split]
    entry = write_shard(shard, spans, layout=layout, vocabulary=job.vocabulary, folder=job.partial)
    return (split, shard), entry


def _finish(
    job: StepContext,
    plan: Plan | None,
    shards: Sequence[tuple[Key, dict]],
    inputs: Sequence[dict],
    failures: Sequence[tuple[int, str]],
) -> None:
    """Writes the manifest and publishes the folder, or writes the first failure."""
    if shared_folder.exists(shared_folder.join(job.output, MANIFEST)):
        return  # a runner may repeat the step after its end
    try:
        if plan is None:
            raise InputError(min(failures)[1])
        manifest = _manifest(job, plan, dict(shards), inputs)
    except InputError as error:
        failure = json.dumps({"message": str(error)})
        shared_folder.write(shared_folder.join(job.partial, FAILURE), failure.encode())
        return
    texts = dict([vocabulary_file(job.vocabulary)]) | tfds_metadata(manifest)
    texts[MANIFEST] = json.dumps(manifest, indent=2) + "\n"  # the last file that is written
    for name, text in texts.items():
        shared_folder.write(shared_folder.join(job.partial, name), text.encode())
    files = [each["file"] for split in manifest["splits"].values() for each in split["shards"]]
    shared_folder.publish(job.partial, job.output, [*files, *texts])


def _manifest(
    job: StepContext, plan: Plan, shards: dict[Key, dict], inputs: Sequence[dict]
) -> dict:
    for before in job.fingerprints:
        if fingerprint(before["path"]) != before:
            raise InputError(f"{before['path']} changed while it was read; run again")
    splits = {}
    for split, layout in enumerate(plan.layouts):
        keys = [(split, shard) for shard in range(len(layout.shards))]
        layout.expect_records(key in shards for key in keys)
        splits[layout.split.name] = layout.summary([shards[key] for key in keys])
    digests = {each["path"]: each for each in inputs}
    in_order = [digests[each["path"]] for each in job.fingerprints]
    entries = known_entries(job.settings, job.vocabulary, in_order)
    entries["versions"]["apache-beam"] = beam.__version__
    return {**entries, **plan.corpus.manifest_entries, "splits": splits}
