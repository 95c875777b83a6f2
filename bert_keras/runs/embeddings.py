"""Writes the embeddings of the lines of a text file."""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bert_keras.errors import check, counted
from bert_keras.files import StrPath, atomic_file, check_output, refuse_existing, text_lines
from bert_keras.models.sentence_encoder import BertSentenceEncoder

CHUNK_TEXTS = 512  # texts that are encoded together


def write_embeddings(
    texts: StrPath,
    output: StrPath,
    *,
    model: StrPath,
    dimensions: int | None = None,
    prompt: str | None = None,
) -> tuple[int, int]:
    """Writes the embedding of each line of a text file; blank lines are skipped and counted.

    Args:
        texts: A UTF-8 file with one text per line.
        output: The file to write. `.npy` holds the embeddings, float32 [lines, E], which
            `numpy.load(output, mmap_mode="r")` maps into memory. `.parquet` has the columns `text`
            and `vector`.
        model: A folder of sentence-transformers, or a checkpoint of any format.
        dimensions: The number of values to keep, as in `BertSentenceEncoder.encode`.
        prompt: The name of a prompt of the model; None takes the default.

    Returns:
        The number of embeddings and their size E.
    """
    output = Path(output)
    check(output.suffix in _WRITERS, f"{output}: expected a name that ends in .npy or .parquet")
    refuse_existing(output)
    check_output(output)
    num_texts = _num_texts(texts)
    encoder = BertSentenceEncoder.from_pretrained(model)
    size = encoder.embedding_size if dimensions is None else dimensions
    check(
        1 <= size <= encoder.embedding_size,
        f"dimensions is {size}; expected 1 to {encoder.embedding_size}, the model's size",
    )
    prompt_text = encoder.embedding.prompt(name=prompt)
    with (
        atomic_file(output) as unfinished,
        _WRITERS[output.suffix](unfinished, num_texts, size) as write,
    ):
        num_chunks = -(-num_texts // CHUNK_TEXTS)
        for chunk in tqdm(_chunks(texts), desc="embed", unit=" chunks", total=num_chunks):
            write(chunk, encoder.encode(chunk, prompt=prompt_text, dimensions=dimensions))
    return num_texts, size


def _num_texts(texts: StrPath) -> int:
    num_texts = num_blank = 0
    for text in text_lines(texts):
        num_texts, num_blank = num_texts + bool(text.strip()), num_blank + (not text.strip())
    check(num_texts, f"{texts} has no text; expected one on each line")
    if num_blank:
        print(f"skipped {counted(num_blank, 'blank line')} of {texts}", file=sys.stderr)
    return num_texts


def _chunks(texts: StrPath) -> Iterator[list[str]]:
    lines = filter(str.strip, text_lines(texts))
    while chunk := list(itertools.islice(lines, CHUNK_TEXTS)):
        yield chunk


Write = Callable[[list[str], np.ndarray], object]  # writes some texts and their vectors


@contextlib.contextmanager
def _npy_writer(path: Path, num_texts: int, size: int) -> Iterator[Write]:
    fields = {"descr": "<f4", "fortran_order": False, "shape": (num_texts, size)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, fields)
        yield lambda texts, vectors: file.write(vectors.astype("<f4").tobytes())


@contextlib.contextmanager
def _parquet_writer(path: Path, num_texts: int, size: int) -> Iterator[Write]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32(), size))])
    with ParquetWriter(path, schema) as writer:

        def write(texts: list[str], vectors: np.ndarray) -> None:
            values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), size)
            writer.write_table(pa.Table.from_arrays([pa.array(texts), values], schema=schema))

        yield write


_WRITERS = {".npy": _npy_writer, ".parquet": _parquet_writer}
