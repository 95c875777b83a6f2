"""Writes the embeddings of the lines of a text file, over several runs if one is stopped."""

import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.files import (
    check_output,
    json_object,
    locked_folder,
    refuse_existing,
    text_lines,
    write_text,
)
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.progress import progress

CHUNK_TEXTS = 512  # texts that are encoded together; a stopped run repeats at most one chunk
_ROWS_AT_ONCE = 8192  # of a row group of a parquet file
_SUFFIXES = (".npy", ".parquet")


def write_embeddings(
    texts: str | os.PathLike,
    output: str | os.PathLike,
    *,
    model: str | os.PathLike,
    dimensions: int | None = None,
    prompt: str | None = None,
) -> tuple[int, int]:
    """Write the embedding of each line of a text file.

    The vectors are collected in the folder OUTPUT.partial. If the run is stopped, the next call
    with the same arguments continues it, and `output` gets the same bytes.

    Args:
        texts: A UTF-8 file with one text per line.
        output: The file to write. `.npy` holds the embeddings, float32 [lines, E], which
            `numpy.load(output, mmap_mode="r")` maps into memory. `.parquet` has the columns `text`
            and `vector`.
        model: A folder of sentence-transformers, or a checkpoint of any format.
        dimensions: Keep this number of values of each embedding, as
            `BertSentenceEncoder.encode` does; None keeps all.
        prompt: Name of a prompt of the model to put before each text; None takes the default one.

    Returns:
        The number of embeddings and their size E.

    Raises:
        InputError: If an argument is invalid, a line is blank, or OUTPUT.partial belongs to other
            arguments.
    """
    output = Path(output)
    if output.suffix not in _SUFFIXES:
        raise InputError(f"{output} ends in {output.suffix!r}; expected .npy or .parquet")
    refuse_existing(output)
    check_output(output)
    num_texts, digest = _survey(texts)
    encoder = BertSentenceEncoder.from_pretrained(model)
    size = encoder.embedding_size
    if dimensions is not None and not 1 <= dimensions <= size:
        raise InputError(f"dimensions is {dimensions}; expected 1 to {size}, the model's size")
    size = dimensions or size
    text = encoder.embedding.prompt(name=prompt)
    arguments = {"texts": digest, "model": _digest(encoder), "prompt": text, "size": size}
    partial = output.with_name(f"{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with locked_folder(partial, output=output), _full_disk_names(output):
        _check_arguments(partial, arguments)
        vectors = partial / "vectors.npy"
        with contextlib.closing(_VectorFile(vectors, num_texts, size)) as file:
            done = file.num_vectors
            with progress(stage="embed", unit="texts", total=num_texts, initial=done) as bar:
                for chunk in _chunks(texts, first=done, size=CHUNK_TEXTS):
                    file.append(encoder.encode(chunk, prompt=text, dimensions=dimensions))
                    bar.update(len(chunk))
        if output.suffix == ".parquet":
            vectors = _write_parquet(partial / "vectors.parquet", texts, vectors)
        os.replace(vectors, output)
        shutil.rmtree(partial)
    return num_texts, size


def _survey(texts: str | os.PathLike) -> tuple[int, str]:
    """Return the number of lines and a SHA-256 of them; check that each line has a text."""
    digest, number = hashlib.sha256(), 0
    for number, text in enumerate(text_lines(texts), start=1):
        if not text.strip():
            raise InputError(f"{texts}, line {number} is blank; expected a text on each line")
        digest.update(text.encode() + b"\n")
    if not number:
        raise InputError(f"{texts} is empty; expected a text on each line")
    return number, digest.hexdigest()


def _digest(encoder: BertSentenceEncoder) -> str:
    """Return a SHA-256 of everything that determines the embeddings of a model."""
    digest = hashlib.sha256(repr(encoder.metadata).encode())
    for weight in encoder.weights:
        digest.update(np.asarray(weight).tobytes())
    return digest.hexdigest()


def _check_arguments(partial: Path, arguments: dict) -> None:
    """Check that OUTPUT.partial belongs to these arguments, or store them in it."""
    path = partial / "arguments.json"
    if not path.exists():
        write_text(path, json.dumps(arguments))
    elif json_object(path) != arguments:
        raise InputError(
            f"{partial} contains embeddings of other texts, another model or other options; "
            "remove it or choose another output"
        )


@contextlib.contextmanager
def _full_disk_names(output: Path) -> Iterator[None]:
    """Add the path of the output to the error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            error.filename = os.fspath(output)
        raise


def _chunks(texts: str | os.PathLike, *, first: int = 0, size: int) -> Iterator[list]:
    lines = itertools.islice(text_lines(texts), first, None)
    while chunk := list(itertools.islice(lines, size)):
        yield chunk


class _VectorFile:
    """A .npy file of float32 [num_texts, size] that grows by one chunk at a time.

    The vectors are written, not mapped into memory, because a full disk ends a process that writes
    to a mapped file.

    Args:
        path: The file. If it exists, incomplete chunks at its end are removed.
        num_texts: Number of rows of the complete file.
        size: Number of columns.

    Attributes:
        num_vectors: The vectors in the file, a multiple of `CHUNK_TEXTS` until the last chunk.
    """

    def __init__(self, path: Path, num_texts: int, size: int):
        header = io.BytesIO()
        fields = {"descr": "<f4", "fortran_order": False, "shape": (num_texts, size)}
        np.lib.format.write_array_header_1_0(header, fields)
        start, row_bytes = len(header.getvalue()), 4 * size
        self._file = path.open("ab")
        num_rows = max(self._file.tell() - start, 0) // row_bytes
        is_complete = num_rows == num_texts
        self.num_vectors = num_rows if is_complete else num_rows // CHUNK_TEXTS * CHUNK_TEXTS
        if self._file.tell() < start:
            self._file.truncate(0)
            self._file.write(header.getvalue())
        else:
            self._file.truncate(start + self.num_vectors * row_bytes)

    def append(self, vectors: np.ndarray) -> None:
        """Write the vectors of a chunk, float32 [B, size], to the disk."""
        self._file.write(vectors.astype("<f4").tobytes())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.num_vectors += len(vectors)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _write_parquet(path: Path, texts: str | os.PathLike, vectors: Path) -> Path:
    """Write the texts and their vectors to a parquet file and return its path."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    rows = np.load(vectors, mmap_mode="r")
    size, first = rows.shape[1], 0
    schema = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32(), size))])
    with ParquetWriter(path, schema) as writer:
        for chunk in _chunks(texts, size=_ROWS_AT_ONCE):
            values = pa.array(rows[first : first + len(chunk)].ravel())
            columns = [pa.array(chunk), pa.FixedSizeListArray.from_arrays(values, size)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            first += len(chunk)
    return path
