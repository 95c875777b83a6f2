"""Writes the embeddings of the lines of a text file, over several runs if one is stopped."""

import hashlib
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bert_keras import files
from bert_keras.errors import InputError, check_count, counted
from bert_keras.models.sentence_encoder import BertSentenceEncoder

CHUNK_TEXTS = 512  # texts that are encoded together; a stopped run repeats at most one chunk


def write_embeddings(
    texts: files.StrPath,
    output: files.StrPath,
    *,
    model: files.StrPath,
    dimensions: int | None = None,
    prompt: str | None = None,
) -> tuple[int, int]:
    """Writes the embedding of each line that is not blank; returns how many, and their size E.

    The vectors are collected in OUTPUT.partial. If the run is stopped, the next call with the same
    arguments continues it, and `output` gets the same bytes.

    Args:
        texts: A UTF-8 file with a text on each line.
        output: The `.npy` file to write, float32 [lines, E].
        model: The folder or name of a sentence encoder.
        dimensions: As in `BertSentenceEncoder.encode`.
        prompt: The name of a prompt of the model; None for its default prompt.
    """
    check_count("dimensions", dimensions)
    output = Path(output)
    files.check_output(output, suffix=".npy")
    files.refuse_existing(output)
    files.check_no_table(texts)
    is_blank = [not text.strip() for text in files.text_lines(texts)]
    num_blank = sum(is_blank)
    num_texts = len(is_blank) - num_blank
    if not num_texts:
        raise InputError(f"{texts} has no text; expected one on each line")
    if num_blank:
        print(f"skipped {counted(num_blank, 'blank line')} of {texts}", file=sys.stderr)
    encoder = BertSentenceEncoder.from_pretrained(model)
    size = encoder.embedding_size if dimensions is None else dimensions
    prompt_text = encoder.embedding.prompt(name=prompt)
    arguments = repr((files.file_sha256(texts), encoder.metadata, prompt_text, size))
    hashed = hashlib.sha256(arguments.encode())
    for weight in encoder.weights:
        hashed.update(np.asarray(weight).tobytes())
    digest, chunk_bytes = hashed.digest(), CHUNK_TEXTS * 4 * size
    with files.resumed_folder(output) as (work, result):
        with work.open("a+b") as file:  # contains the digest, then float32 vectors
            file.seek(0)
            if len(written := file.read(len(digest))) < len(digest):
                file.truncate(0)
                file.write(digest)
            elif written != digest:
                raise InputError(f"{work.parent} contains vectors for other arguments; remove it")
            num_done = (file.seek(0, os.SEEK_END) - len(digest)) // chunk_bytes
            file.truncate(len(digest) + num_done * chunk_bytes)
            total = -(-num_texts // CHUNK_TEXTS)
            chunks = tqdm(_read_chunks(texts), desc="embed", unit=" chunks", total=total)
            for chunk in itertools.islice(chunks, num_done, None):
                vectors = encoder.encode(chunk, prompt=prompt_text, dimensions=dimensions)
                file.write(vectors.astype("<f4").tobytes())
                file.flush()
        vectors = np.memmap(work, "<f4", "r", len(digest), (num_texts, size))
        with result.open("wb") as file:
            np.save(file, vectors)
    return num_texts, size


def _read_chunks(texts: files.StrPath) -> Iterator[list[str]]:
    """Yields lists of at most CHUNK_TEXTS lines that are not blank."""
    lines = filter(str.strip, files.text_lines(texts))
    while chunk := list(itertools.islice(lines, CHUNK_TEXTS)):
        yield chunk
