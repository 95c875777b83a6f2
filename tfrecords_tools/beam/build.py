"""Runs an Apache Beam job that writes a folder of records, from a corpus of any size.

The records are those of `tfrecords_tools.build.build`, shard by shard and byte by byte. A runner
does a failed step again; a job that was stopped as a whole begins anew.
"""

import os
from collections.abc import Iterable, Sequence

from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.build import units_of
from tfrecords_tools.inputs.corpus import fingerprint
from tfrecords_tools.inputs.places import files
from tfrecords_tools.manifest import MANIFEST
from tfrecords_tools.settings import BuildSettings, Settings


def build_on_beam(
    places: Iterable[str | os.PathLike],
    *,
    vocabulary: Vocabulary,
    output: str | os.PathLike,
    settings: Settings,
    pipeline_options: Sequence[str] = (),
) -> dict:
    """Writes `output` whole, by the runner that `pipeline_options` name; returns the manifest.

    The options are those of Beam's command lines, such as "--runner=DataflowRunner". Corpus and
    output must lie where every worker reaches them.
    """
    if not isinstance(settings, BuildSettings):
        raise InputError(
            "the records of --compat google depend on all draws before them and are made on one "
            "machine; leave out --beam, or --compat google"
        )
    settings = settings.for_vocabulary(vocabulary)
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise InputError(
            'apache-beam is not installed; expected the extra beam: pip install "bert-keras[beam]"'
        ) from error
    from tfrecords_tools.beam import output as place
    from tfrecords_tools.beam.pipeline import FAILURE, Job, add_steps

    try:
        pipeline = beam.Pipeline(options=PipelineOptions(list(pipeline_options)))
    except (ImportError, ValueError) as error:
        given = " ".join(pipeline_options)
        raise InputError(f"Apache Beam does not run with the options {given} ({error})") from error
    paths = files(list(places))  # which may be reached by options of the pipeline's
    units = units_of(paths, text_field=settings.text_field)
    output = os.fspath(output)
    job = Job(
        fingerprints=tuple(map(fingerprint, paths)),
        vocabulary=vocabulary,
        settings=settings,
        partial=place.begun(output),
        output=output,
    )
    add_steps(pipeline, units, job)
    state = pipeline.run().wait_until_finish()
    failure = place.join(job.partial, FAILURE)
    if place.exists(failure):
        told = place.read_json(failure)["told"]
        place.remove(job.partial)
        raise InputError(told)
    manifest = place.join(output, MANIFEST)
    if not place.exists(manifest):
        raise ChildProcessError(
            f"the job ended ({state}) and left no {manifest}; look into the log of its runner, and "
            "give an output that all workers and this machine reach"
        )
    return place.read_json(manifest)
