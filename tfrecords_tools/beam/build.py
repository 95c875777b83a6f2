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
from tfrecords_tools.inputs.corpus_files import files
from tfrecords_tools.manifest import MANIFEST
from tfrecords_tools.settings import BuildSettings, Settings


def build_on_beam(
    corpus: Iterable[str | os.PathLike],
    *,
    vocabulary: Vocabulary,
    output: str | os.PathLike,
    settings: Settings,
    pipeline_options: Sequence[str] = (),
) -> dict:
    """Runs the pipeline that writes `output` and returns the manifest.

    Every worker must have access to the corpus and to the output.

    Args:
        corpus: Files, folders, glob patterns or TFDS names of the corpus.
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
            "each record of --compat google depends on all earlier random draws, so one machine "
            "writes them; omit --beam or --compat google"
        )
    settings = settings.for_vocabulary(vocabulary)
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise InputError(
            'apache-beam is not installed; expected the extra beam: pip install "bert-keras[beam]"'
        ) from error
    from tfrecords_tools.beam import shared_folder
    from tfrecords_tools.beam.pipeline import FAILURE, StepContext, add_steps

    try:
        pipeline = beam.Pipeline(options=PipelineOptions(list(pipeline_options)))
    except (ImportError, ValueError) as error:
        options = " ".join(pipeline_options)
        raise InputError(
            f"Apache Beam does not run with the options {options} ({error})"
        ) from error
    paths = files(list(corpus))  # the pipeline's options may configure the access to them
    units = units_of(paths, text_field=settings.text_field)
    output = os.fspath(output)
    job = StepContext(
        fingerprints=tuple(map(fingerprint, paths)),
        vocabulary=vocabulary,
        settings=settings,
        partial=shared_folder.create_partial(output),
        output=output,
    )
    add_steps(pipeline, units, job)
    state = pipeline.run().wait_until_finish()
    failure = shared_folder.join(job.partial, FAILURE)
    if shared_folder.exists(failure):
        message = shared_folder.read_json(failure)["message"]
        shared_folder.remove(job.partial)
        raise InputError(message)
    manifest = shared_folder.join(output, MANIFEST)
    if not shared_folder.exists(manifest):
        raise ChildProcessError(
            f"the job ended ({state}) without {manifest}; read the log of its runner, and give an "
            "output that all workers and this machine can access"
        )
    return shared_folder.read_json(manifest)
