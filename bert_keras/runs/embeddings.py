"""Writes the embeddings of the lines of a text file, over several runs if one is stopped."""

import hashlib
import itertools
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bert_keras.errors import InputError, check, counted
from bert_keras.files import (
    StrPath,
    atomic_file,
    check_output,
    json_object,
    locked_folder,
    refuse_existing,
    text_lines,
    write_json,
)
from bert_keras.models.sentence_encoder import BertSentenceEncoder

CHUNK_TEXTS = 512  # texts that are encoded together; a stopped run repeats at most one chunk


def write_embeddings(
    texts: StrPath,
    output: StrPath,
    *,
    model: StrPath,
    dimensions: int | None = None,
    prompt: str | None = None,
) -> tuple[int, int]:
    """Writes the embedding of each line of a text file; blank lines are skipped and counted.

    The vectors are collected in the folder OUTPUT.partial. If the run is stopped, the next call
    with the same arguments continues it, and `output` gets the same bytes.

    Args:
        texts: A UTF-8 file with one text per line.
        output: The file to write. `.npy` holds the embeddings, float32 [lines, E], which
            `numpy.load(output, mmap_mode="r")` maps into memory. `.parquet` has the columns `text`
            and `vector`.
        model: A folder of sentence-transformers, or a checkpoint of any format.
        dimensions: The number of values of each embedding to keep, as in
            `BertSentenceEncoder.encode`; None keeps all.
        prompt: The name of a prompt of the model to put before each text; None takes the default.

    Returns:
        The number of embeddings and their size E.

    Raises:
        InputError: An argument is invalid, or OUTPUT.partial belongs to other arguments.
    """
    output = Path(output)
    check(output.suffix in _WRITERS, f"{output}: expected a name that ends in .npy or .parquet")
    refuse_existing(output)
    check_output(output)
    num_texts, digest = _survey(texts)
    encoder = BertSentenceEncoder.from_pretrained(model)
    size = encoder.embedding_size if dimensions is None else dimensions
    check(
        1 <= size <= encoder.embedding_size,
        f"dimensions is {size}; expected 1 to {encoder.embedding_size}, the model's size",
    )
    prompt_text = encoder.embedding.prompt(name=prompt)
    weights = hashlib.sha256(repr(encoder.metadata).encode())
    for weight in encoder.weights:
        weights.update(np.asarray(weight).tobytes())
    arguments = {"texts": digest, "model": weights.hexdigest(), "prompt": prompt_text, "size": size}
    partial = output.with_name(f"{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with locked_folder(partial, output=output):
        if not (partial / "arguments.json").exists():
            write_json(partial / "arguments.json", arguments)
        elif json_object(partial / "arguments.json") != arguments:
            raise InputError(
                f"{partial} contains embeddings of other texts, another model or other options; "
                "remove it or choose another output"
            )
        num_parts = -(-num_texts // CHUNK_TEXTS)
        parts = [partial / f"{number:08}.npy" for number in range(num_parts)]
        chunks = zip(parts, _chunks(texts), strict=True)
        for part, chunk in tqdm(chunks, desc="embed", unit=" chunks", total=num_parts):
            if not part.exists():
                vectors = encoder.encode(chunk, prompt=prompt_text, dimensions=dimensions)
                with atomic_file(part) as unfinished, unfinished.open("wb") as file:
                    np.save(file, vectors.astype("<f4"))
        with atomic_file(output) as unfinished:
            _WRITERS[output.suffix](unfinished, parts, texts, (num_texts, size))
        shutil.rmtree(partial)
    return num_texts, size


def _survey(texts: StrPath) -> tuple[int, str]:
    """Returns the number of texts and a SHA-256 of them."""
    digest, num_texts, num_blank = hashlib.sha256(), 0, 0
    for text in text_lines(texts):
        num_texts, num_blank = num_texts + bool(text.strip()), num_blank + (not text.strip())
        digest.update(text.encode() + b"\n")
    check(num_texts, f"{texts} has no text; expected one on each line")
    if num_blank:
        print(f"skipped {counted(num_blank, 'blank line')} of {texts}", file=sys.stderr)
    return num_texts, digest.hexdigest()


def _chunks(texts: StrPath) -> Iterator[list[str]]:
    lines = filter(str.strip, text_lines(texts))
    while chunk := list(itertools.islice(lines, CHUNK_TEXTS)):
        yield chunk


def _write_npy(path: Path, parts: Sequence[Path], texts: StrPath, shape: tuple[int, int]) -> None:
    fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, fields)
        for part in parts:
            file.write(np.load(part).tobytes())


def _write_parquet(
    path: Path, parts: Sequence[Path], texts: StrPath, shape: tuple[int, int]
) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32(), shape[1]))])
    with ParquetWriter(path, schema) as writer:
        for part, chunk in zip(parts, _chunks(texts), strict=True):
            values = pa.FixedSizeListArray.from_arrays(pa.array(np.load(part).ravel()), shape[1])
            writer.write_table(pa.Table.from_arrays([pa.array(chunk), values], schema=schema))


_WRITERS = {".npy": _write_npy, ".parquet": _write_parquet}
