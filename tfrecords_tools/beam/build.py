"""Runs an Apache Beam job that writes a folder of records, from a corpus of any size.

Each shard has the same bytes as with `tfrecords_tools.build.build`. The runner repeats a failed
step. A job that was stopped as a whole starts from the beginning.
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
    """Runs the pipeline that writes `output` and returns the manifest.

    Every worker must have access to the corpus and to the output.

    Args:
        places: Files, folders, glob patterns or TFDS names of the corpus.
        vocabulary: The vocabulary.
        output: The folder, which must not exist yet or be empty.
        settings: The settings of the records.
        pipeline_options: Command line options of Beam, such as "--runner=DataflowRunner".

    Raises:
        InputError: The settings, the options or the corpus are not usable.
        ChildProcessError: The job ended without a manifest.
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
    paths = files(list(places))  # the pipeline's options may configure the access to them
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
