"""Tokenizes text files with one sentence a line, as the original writer reads them.

Only a blank line ends a document; the end of a file does not. All carriage returns are removed.
TensorFlow's GFile, which google-research/bert `create_pretraining_data.py` uses, does the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.storage import open_file, whole_folder
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.formats import recognised
from tfrecords_tools.inputs.parts import grouped
from tfrecords_tools.inputs.places import TFDS, fingerprint
from tfrecords_tools.text.store import TokenWriter, piece_dtype

TOGETHER = 1 << 17  # characters that are tokenized at once


@dataclass(frozen=True)
class TokenizeFiles:
    """A job that writes the token store of all files, in their order."""

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
            for texts in grouped(lines, size_of=lambda text: len(text) + 1, most=TOGETHER):
                ids, lengths = tokenizer.flat_ids(texts)
                # A blank line counts as an empty sentence that begins a document.
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
                return  # carriage returns at the end of a file are not a line
            try:
                yield line.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{file}, line {number} is not UTF-8 (byte {line[error.start]:#04x} at column "
                    f"{error.start + 1}); convert the file to UTF-8 first"
                ) from error
