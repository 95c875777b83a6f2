"""Tokenizes text files, one sentence a line, as the original reads them.

Only a blank line ends a document, the end of a file does not, and carriage returns vanish wherever
they stand: so TensorFlow's GFile hands lines to google-research/bert `create_pretraining_data.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.storage import open_file, whole_folder
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.formats import recognised
from tfrecords_tools.inputs.places import TFDS, fingerprint
from tfrecords_tools.text.store import TokenWriter, piece_dtype

TOGETHER = 1 << 17  # characters that are tokenised at once


@dataclass(frozen=True)
class TokenizeFiles:
    """A job: the token store of all files, in their order."""

    output: Path
    files: tuple[str, ...]
    vocabulary: Path
    lowercase: bool

    def __post_init__(self):
        for file in self.files:
            kind = "tfds" if file.startswith(TFDS) else recognised(file)
            if kind != "text":
                raise InputError(
                    f"{file} is {kind}; --compat google reads plain text only, as the original "
                    "does: make it that, a sentence a line"
                )

    @property
    def size(self) -> int:
        return sum(fingerprint(file)["bytes"] for file in self.files)

    def __call__(self, advance: Callable[[int], object]) -> None:
        vocabulary, num_pieces = Vocabulary.from_file(self.vocabulary), 0
        tokenizer = WordPieceTokenizer(vocabulary, lowercase=self.lowercase)
        with (
            whole_folder(self.output) as folder,
            TokenWriter(folder, dtype=piece_dtype(len(vocabulary))) as writer,
        ):
            lines = chain.from_iterable(map(_lines, self.files))
            for texts in _batches(lines):
                ids, lengths = _flat_ids(texts, tokenizer)
                # A blank line is the empty sentence that a document begins with.
                writer.add(ids, lengths, np.array([not text for text in texts]))
                num_pieces += len(ids)
                advance(sum(map(len, texts)))
            writer.close()
            if not num_pieces:
                names = ", ".join(self.files) or "no files"
                raise InputError(f"the corpus holds no text ({names}); expected a sentence a line")


def _lines(file: str) -> Iterator[str]:
    with open_file(file) as lines:
        for number, line in enumerate(lines, start=1):
            line = line.replace(b"\r", b"")
            if not line:
                return  # carriage returns at the end of a file are no line
            try:
                yield line.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{file}, line {number} is not UTF-8 (byte {line[error.start]:#04x} at column "
                    f"{error.start + 1}); convert the file to UTF-8 first"
                ) from error


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts, about TOGETHER characters in all; a longer text stands alone."""
    batch, size = [], 0
    for text in texts:
        if batch and size + len(text) > TOGETHER:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text) + 1
    if batch:
        yield batch


def _flat_ids(texts: list[str], tokenizer: WordPieceTokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Ids int [M] and lengths int [N]; a long text is cut at spaces, over which no token goes."""
    if len(texts) > 1 or len(texts[0]) <= TOGETHER:
        return tokenizer.flat_ids(texts)
    text, parts, start = texts[0], [], 0
    while start < len(text):
        end = text.find(" ", start + TOGETHER)
        end = len(text) if end < 0 else end
        parts.append(tokenizer.flat_ids([text[start:end]])[0])
        start = end
    ids = np.concatenate(parts)
    return ids, np.array([len(ids)])
