"""Runs an Apache Beam job that embeds the lines of text files with an exported model."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.errors import InputError
from bert_keras.files import file_system
from bert_keras.serving.embeddings_api import has_signature, shortened
from bert_keras.serving.model import ServedModel
from bert_keras.serving.requests import DEFAULT_SIGNATURE
from bert_keras.serving.version_folders import chosen_versions

_MAX_BATCH_SIZE = 64  # texts of one session run
_MAX_SECONDS = 3600  # for one session run, on a machine that is busy with other work
_OMITTED = ("blank lines", "lines that are not UTF-8")  # names of the counters


def embed_on_beam(
    texts: str,
    output: str | os.PathLike,
    *,
    model: str | os.PathLike,
    dimensions: int | None = None,
    pipeline_options: Sequence[str] = (),
) -> dict[str, int]:
    """Run the pipeline that writes `output`, a folder of parquet files.

    Each row has the columns `text` and `vector`. The rows are not in the order of the lines. Every
    worker must have access to the texts, the model and the output under the same paths.

    Args:
        texts: A UTF-8 text file with one text per line, a glob pattern of such files, or a URL of
            either that Beam reads; compressed or not. Blank lines and lines that are not UTF-8 are
            omitted and counted.
        output: The folder, which must not exist yet or be empty.
        model: The folder saved_models/NAME of an exported sentence encoder; the latest version
            embeds the texts.
        dimensions: Keep this number of values of each embedding, as `shortened` does; None keeps
            all.
        pipeline_options: Command line options of Beam, such as "--runner=DataflowRunner".

    Returns:
        The number of embeddings, as "embeddings", and of the omitted lines of each kind.

    Raises:
        InputError: If an argument is not usable, or Beam is not installed.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError as error:
        raise InputError(
            'apache-beam is not installed; expected the extra beam: pip install "bert-keras[beam]"'
        ) from error
    (folder,) = chosen_versions(model).values()
    size = _embedding_size(folder, dimensions)
    output = os.fspath(output).rstrip("/")
    system, name = file_system(output)
    if system.exists(name) and (not system.isdir(name) or system.ls(name)):
        raise InputError(f"{output} exists already; choose another name or remove it first")
    try:
        options = PipelineOptions(list(pipeline_options))
        pipeline = beam.Pipeline(options=options)
        _add_steps(pipeline, texts, f"{output}/vectors", folder=str(folder), size=size)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"Apache Beam does not run with the options {' '.join(pipeline_options)} ({error})"
        ) from error
    except OSError as error:
        raise InputError(f"{texts} cannot be read: {error}") from error
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query()["counters"]
    counts = {each.key.metric.name: each.result for each in counters}
    return {kind: counts.get(kind, 0) for kind in ("embeddings", *_OMITTED)}


def _embedding_size(folder: Path, dimensions: int | None) -> int:
    """Return the size of the vectors to write; check the model and `dimensions`."""
    from tensorflow.python.saved_model.loader_impl import parse_saved_model

    signatures = parse_saved_model(str(folder)).meta_graphs[0].signature_def
    if not has_signature(signatures, DEFAULT_SIGNATURE, "embedding"):
        raise InputError(
            f"{folder} returns no embeddings of texts; expected an exported sentence encoder"
        )
    shape = signatures[DEFAULT_SIGNATURE].outputs["embedding"].tensor_shape
    size = shape.dim[1].size
    if dimensions is not None and not 1 <= dimensions <= size:
        raise InputError(f"dimensions is {dimensions}; expected 1 to {size}, the model's size")
    return dimensions or size


def _add_steps(pipeline: Any, texts: str, prefix: str, *, folder: str, size: int) -> None:
    import apache_beam as beam
    import pyarrow as pa
    from apache_beam.coders import BytesCoder
    from apache_beam.io import ReadFromText, WriteToParquet
    from apache_beam.metrics.metric import Metrics
    from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference

    class Embed(ModelHandler):
        def load_model(self) -> ServedModel:
            return ServedModel(Path(folder), seconds=_MAX_SECONDS)

        def run_inference(
            self, batch: Sequence[str], model: ServedModel, inference_args: dict | None = None
        ) -> Iterable[PredictionResult]:
            encoded = np.array([text.encode() for text in batch], object)
            vectors = model.predict(DEFAULT_SIGNATURE, {"text": encoded})["embedding"]
            if vectors.shape[1] != size:
                vectors = shortened(vectors, size)
            for text, vector in zip(batch, vectors, strict=True):
                yield PredictionResult(text, vector)

        def batch_elements_kwargs(self) -> dict[str, int]:
            return {"max_batch_size": _MAX_BATCH_SIZE}

    def texts_of(line: bytes) -> Iterator[str]:
        try:
            text = line.decode("utf-8").removeprefix("\ufeff").rstrip("\r")
        except UnicodeDecodeError:
            Metrics.counter("embed", _OMITTED[1]).inc()
            return
        if not text.strip():
            Metrics.counter("embed", _OMITTED[0]).inc()
            return
        yield text

    def row(result: PredictionResult) -> dict[str, Any]:
        Metrics.counter("embed", "embeddings").inc()
        return {"text": result.example, "vector": result.inference}

    vector_type = pa.list_(pa.float32(), size)
    _ = (
        pipeline
        | "read" >> ReadFromText(texts, coder=BytesCoder())
        | "decode" >> beam.FlatMap(texts_of)
        | "spread" >> beam.Reshuffle()
        | "embed" >> RunInference(Embed())
        | "rows" >> beam.Map(row)
        | "write"
        >> WriteToParquet(
            prefix,
            schema=pa.schema([("text", pa.string()), ("vector", vector_type)]),
            file_name_suffix=".parquet",
        )
    )
