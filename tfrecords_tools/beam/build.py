"""Runs an Apache Beam job that writes a folder of records, from a corpus of any size.

Each shard has the same bytes as with `tfrecords_tools.build.build`. The runner repeats a failed
step. A job that was stopped as a whole starts from the beginning.

The steps: units -> ranges of documents as ids -> instances, as requests for spans of ranges -> the
requested spans -> shards -> the manifest and the final name of the folder. Only counts are
collected in one process; they decide how documents are numbered and split and how the records are
distributed.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsList, AsSingleton

from bert_keras.errors import InputError, check
from bert_keras.files import StrPath, file_system, open_file
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.beam.ranges import (
    REPORTS,
    Job,
    Key,
    Plan,
    plan_of,
    requested_spans,
    requests_of_range,
    tokenized_ranges,
    write_shard,
)
from tfrecords_tools.build import expect_unchanged, units_of
from tfrecords_tools.inputs.corpus import digest, files, fingerprint
from tfrecords_tools.inputs.decoding import Unit
from tfrecords_tools.manifest import MANIFEST, folder_files, manifest_head
from tfrecords_tools.settings import BuildSettings, Settings

# Runners report the exception of a step as a text that ends so.
_STEP_ERROR = re.compile(r"InputError: (.*?)(?: \[while running|\n|$)", re.S)


def build_on_beam(
    corpus: Iterable[StrPath],
    *,
    vocabulary: Vocabulary,
    output: StrPath,
    settings: Settings,
    pipeline_options: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs the pipeline that writes `output` and returns the manifest.

    Every worker must have access to the corpus and to the output. The job writes to the folder
    OUTPUT.beam-partial first.

    Args:
        corpus: Files, folders, glob patterns or TFDS names of the corpus.
        vocabulary: The vocabulary.
        output: The folder, which must not exist yet or be empty.
        settings: The settings of the records.
        pipeline_options: Command line options of Beam, such as "--runner=DataflowRunner".

    Raises:
        InputError: The settings, the options or the corpus are not usable.
    """
    if not isinstance(settings, BuildSettings):
        raise InputError("one machine writes the records of --compat google; leave out --beam")
    settings = settings.for_vocabulary(vocabulary)
    pipeline = beam.Pipeline(options=PipelineOptions(list(pipeline_options)))
    paths = files(list(corpus))  # the pipeline's options may configure the access to them
    output = os.fspath(output).rstrip("/")
    partial = f"{output}.beam-partial"
    system, folder = file_system(partial)
    for path in (output, partial):
        name = file_system(path)[1]
        is_used = system.isfile(name) or (system.isdir(name) and system.ls(name))
        check(not is_used, f"{path} exists already; choose another name or remove it first")
    system.makedirs(folder, exist_ok=True)
    system.touch(f"{folder}/running")  # some file systems have no empty folders
    job = Job(tuple(map(fingerprint, paths)), vocabulary, settings, partial, output)
    try:
        add_steps(pipeline, units_of(job.fingerprints, text_field=settings.text_field), job)
        pipeline.run().wait_until_finish()
    except Exception as error:
        if message := _STEP_ERROR.search(f"{type(error).__name__}: {error}"):
            raise InputError(message[1]) from error
        raise
    finally:
        if system.exists(folder):
            system.rm(folder, recursive=True)
    with open_file(f"{output}/{MANIFEST}") as file:
        return json.load(file)


def add_steps(pipeline: beam.Pipeline, units: Sequence[Unit], job: Job) -> None:
    """Adds all steps from the units to the folder `job.output`."""
    ranges, reports = (
        pipeline
        | "units" >> beam.Create(list(enumerate(units)))
        | "spread units" >> beam.Reshuffle()
        | "tokenize" >> beam.FlatMap(tokenized_ranges, job).with_outputs(REPORTS, main="ranges")
    )
    ranges |= "store ranges" >> beam.Reshuffle()  # several steps read them; they are computed once
    plan = reports | "all units" >> beam.combiners.ToList() | "plan" >> beam.Map(plan_of, job)
    requests = ranges | "draw instances" >> beam.FlatMap(requests_of_range, AsSingleton(plan))
    shards = (
        {"ranges": ranges, "requests": requests}
        | "group requests" >> beam.CoGroupByKey()
        | "read spans" >> beam.FlatMap(requested_spans, AsSingleton(plan))
        | "group spans" >> beam.GroupByKey()
        | "write shards" >> beam.Map(write_shard, AsSingleton(plan), job)
    )
    inputs = (
        pipeline
        | "inputs" >> beam.Create([each["path"] for each in job.fingerprints])
        | "spread inputs" >> beam.Reshuffle()
        | "digest" >> beam.Map(lambda path: (path, digest(path)))
    )
    _ = (
        pipeline
        | "end" >> beam.Create([job])
        | "finish" >> beam.Map(_finish, AsSingleton(plan), AsList(shards), AsList(inputs))
    )


def _finish(
    job: Job,
    plan: Plan,
    shards: Sequence[tuple[Key, dict]],
    inputs: Sequence[tuple[str, dict]],
) -> None:
    """Writes the manifest and gives all files their final names, the manifest last.

    A runner may repeat the step: files that have their names are kept.
    """
    system, folder = file_system(job.output)
    partial = file_system(job.partial)[1]
    if not system.exists(partial):
        return
    expect_unchanged(job.fingerprints)
    by_key, splits = dict(shards), {}
    for split, layout in enumerate(plan.layouts):
        keys = [(split, shard) for shard in range(len(layout.shards))]
        layout.expect_records(key in by_key for key in keys)
        splits[layout.split.name] = layout.summary([by_key[key] for key in keys])
    digests = dict(inputs)
    in_order = [digests[each["path"]] for each in job.fingerprints]
    head = manifest_head(job.settings, job.vocabulary, in_order)
    head["versions"]["apache-beam"] = beam.__version__
    texts = folder_files({**head, **plan.entries, "splits": splits}, job.vocabulary)
    for name, text in texts.items():
        system.pipe_file(f"{partial}/{name}", text.encode())
    system.makedirs(folder, exist_ok=True)
    names = [each["file"] for split in splits.values() for each in split["shards"]]
    for name in (*names, *texts):
        if system.exists(f"{partial}/{name}"):
            system.mv(f"{partial}/{name}", f"{folder}/{name}")
    system.rm(partial, recursive=True)
