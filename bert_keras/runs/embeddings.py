"""Writes the embeddings of the lines of a text file."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bert_keras import files
from bert_keras.errors import InputError, check_count, counted
from bert_keras.models.sentence_encoder import BertSentenceEncoder

CHUNK_TEXTS = 512  # number of texts that are in memory at once


def write_embeddings(
    texts: files.StrPath,
    output: files.StrPath,
    *,
    model: files.StrPath,
    dimensions: int | None = None,
    prompt: str | None = None,
) -> tuple[int, int]:
    """Writes the embedding of each line that is not blank; returns how many, and their size E.

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
    num_chunks = -(-num_texts // CHUNK_TEXTS)
    chunks = tqdm(_read_chunks(texts), desc="embed", unit=" chunks", total=num_chunks)
    with files.atomic_file(output) as part:
        vectors_NE = np.lib.format.open_memmap(part, "w+", np.float32, (num_texts, size))
        start = 0
        for chunk in chunks:
            end = start + len(chunk)
            vectors_NE[start:end] = encoder.encode(chunk, prompt=prompt_text, dimensions=dimensions)
            start = end
        vectors_NE.flush()
    return num_texts, size


def _read_chunks(texts: files.StrPath) -> Iterator[list[str]]:
    """Yields lists of at most CHUNK_TEXTS lines that are not blank."""
    lines = filter(str.strip, files.text_lines(texts))
    while chunk := list(itertools.islice(lines, CHUNK_TEXTS)):
        yield chunk
