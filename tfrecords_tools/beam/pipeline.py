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
from tfrecords_tools.beam import output
from tfrecords_tools.beam.plan import (
    Corpus,
    Plan,
    RangeTokens,
    UnitTold,
    corpus_of,
    held_out_size,
    plan_of,
    tokens_of,
)
from tfrecords_tools.beam.spans import Key, Spans, answered, found, written
from tfrecords_tools.inputs.corpus import digest, fingerprint
from tfrecords_tools.inputs.parts import Unit
from tfrecords_tools.manifest import MANIFEST, made_from
from tfrecords_tools.settings import BuildSettings

FAILURE = "failure.json"
_FAILURES, _UNITS, _REQUESTS = "failures", "units", "requests"


@dataclass(frozen=True)
class Job:
    """The values that every step receives."""

    fingerprints: tuple[dict, ...]  # of the inputs
    vocabulary: Vocabulary
    settings: BuildSettings
    partial: str  # the folder beside `output` that the job writes to
    output: str


def add_steps(pipeline: beam.Pipeline, units: Sequence[Unit], job: Job) -> None:
    """Adds all steps from the units to the folder `job.output`."""
    ranges, told, unreadable = (
        pipeline
        | "units" >> beam.Create(list(enumerate(units)))
        | "spread units" >> beam.Reshuffle()
        | "tokenise" >> beam.FlatMap(_tokenize, job).with_outputs(_UNITS, _FAILURES, main="ranges")
    )
    ranges |= "keep ranges" >> beam.Reshuffle()  # several steps read them; they are computed once
    corpus, no_corpus = (
        told
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
    plan_given = AsSingleton(plan, None)
    spans, requests = ranges | "find" >> beam.FlatMap(_find, plan_given).with_outputs(
        _REQUESTS, main="spans"
    )
    answers = (
        {"ranges": ranges, _REQUESTS: requests}
        | "bring requests" >> beam.CoGroupByKey()
        | "answer" >> beam.FlatMap(_answer, plan_given)
    )
    shards = (
        (spans, answers)
        | "all spans" >> beam.Flatten()
        | "bring spans" >> beam.GroupByKey()
        | "write" >> beam.Map(_write, plan_given, job)
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
        >> beam.Map(_finish, plan_given, AsList(shards), AsList(inputs), AsList(failures))
    )


def _tokenize(numbered: tuple[int, Unit], job: Job) -> Iterator:
    number, unit = numbered
    try:
        for told in tokens_of(number, unit, vocabulary=job.vocabulary, settings=job.settings):
            if isinstance(told, UnitTold):
                yield TaggedOutput(_UNITS, told)
            else:
                yield (told.range.unit, told.range.part), told
    except InputError as error:
        yield TaggedOutput(_FAILURES, (number, str(error)))


def _number(units: Sequence[UnitTold], failures: Sequence, job: Job) -> Iterator:
    if failures:
        return
    try:
        yield corpus_of(units, settings=job.settings)
    except InputError as error:
        yield TaggedOutput(_FAILURES, (0, str(error)))


def _size(keyed: tuple[Key, RangeTokens], corpus: Corpus | None) -> tuple[int, int]:
    return held_out_size(keyed[1], corpus) if corpus else (0, 0)


def _summed(sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    num_sentences, num_pieces = zip((0, 0), *sizes, strict=True)
    return sum(num_sentences), sum(num_pieces)


def _plan(held_out: tuple[int, int], corpus: Corpus | None, job: Job) -> Iterator:
    if corpus is None:
        return
    separators = job.vocabulary.specials.num_separators
    try:
        yield plan_of(corpus, held_out, settings=job.settings, num_separators=separators)
    except InputError as error:
        yield TaggedOutput(_FAILURES, (0, str(error)))


def _find(keyed: tuple[Key, RangeTokens], plan: Plan | None) -> Iterator:
    for what, key, data in found(keyed[1], plan) if plan else ():
        yield TaggedOutput(_REQUESTS, (key, data)) if what == _REQUESTS else (key, data)


def _answer(grouped: tuple[Key, dict], plan: Plan | None) -> Iterator[tuple[Key, Spans]]:
    if plan is None:
        return
    for tokens in grouped[1]["ranges"]:
        yield from answered(tokens, grouped[1][_REQUESTS], plan)


def _write(grouped: tuple[Key, Iterable[Spans]], plan: Plan, job: Job) -> tuple[Key, dict]:
    (split, place), spans = grouped
    layout = plan.layouts[split]
    told = written(place, spans, layout=layout, vocabulary=job.vocabulary, folder=job.partial)
    return (split, place), told


def _finish(
    job: Job,
    plan: Plan | None,
    shards: Sequence[tuple[Key, dict]],
    inputs: Sequence[dict],
    failures: Sequence[tuple[int, str]],
) -> None:
    """Writes the manifest and publishes the folder, or writes the first failure."""
    if output.exists(output.join(job.output, MANIFEST)):
        return  # a runner may repeat the step after its end
    try:
        if plan is None:
            raise InputError(min(failures)[1])
        manifest = _manifest(job, plan, dict(shards), inputs)
    except InputError as error:
        failure = json.dumps({"told": str(error)})
        output.write(output.join(job.partial, FAILURE), failure.encode())
        return
    name, vocabulary = vocabulary_file(job.vocabulary)
    told = json.dumps(manifest, indent=2) + "\n"
    output.write(output.join(job.partial, name), vocabulary.encode())
    output.write(output.join(job.partial, MANIFEST), told.encode())
    files = [each["file"] for split in manifest["splits"].values() for each in split["shards"]]
    output.publish(job.partial, job.output, [*files, name, MANIFEST])


def _manifest(job: Job, plan: Plan, shards: dict[Key, dict], inputs: Sequence[dict]) -> dict:
    for then in job.fingerprints:
        if fingerprint(then["path"]) != then:
            raise InputError(f"{then['path']} changed while it was read; run again")
    splits = {}
    for split, layout in enumerate(plan.layouts):
        keys = [(split, place) for place in range(len(layout.shards))]
        layout.expect_records(key in shards for key in keys)
        splits[layout.split.name] = layout.summary([shards[key] for key in keys])
    digests = {each["path"]: each for each in inputs}
    in_order = [digests[each["path"]] for each in job.fingerprints]
    made = made_from(job.settings, job.vocabulary, in_order)
    made["versions"]["apache-beam"] = beam.__version__
    return {**made, **plan.corpus.told, "splits": splits}
