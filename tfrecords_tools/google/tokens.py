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
from bert_keras.files import atomic_folder, open_file, utf8_error
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus_files import TFDS, fingerprint
from tfrecords_tools.inputs.formats import file_format
from tfrecords_tools.inputs.parts import grouped
from tfrecords_tools.text.store import TokenWriter, token_dtype

BATCH_CHARACTERS = 1 << 17  # characters that are tokenized at once


@dataclass(frozen=True)
class TokenizeFiles:
    """A job that writes the token store of all files, in their order."""

    output: Path
    files: tuple[str, ...]
    vocabulary: Path
    lowercase: bool

    def __post_init__(self):
        for file in self.files:
            kind = "tfds" if file.startswith(TFDS) else file_format(file)
            if kind != "text":
                raise InputError(
                    f"{file} is {kind}; --compat google expects plain text, as the original does: "
                    "convert it to text with one sentence per line"
                )

    @property
    def size(self) -> int:
        return sum(fingerprint(file)["bytes"] for file in self.files)

    def __call__(self, advance: Callable[[int], object]) -> None:
        vocabulary, num_tokens = Vocabulary.from_file(self.vocabulary), 0
        tokenizer = WordPieceTokenizer(vocabulary, lowercase=self.lowercase)
        with (
            atomic_folder(self.output) as folder,
            TokenWriter(folder, dtype=token_dtype(len(vocabulary))) as writer,
        ):
            lines = chain.from_iterable(map(_lines, self.files))
            for texts in grouped(lines, size_of=lambda text: len(text) + 1, most=BATCH_CHARACTERS):
                ids, lengths = tokenizer.flat_ids(texts)
                # A blank line counts as an empty sentence that starts a document.
                writer.add(ids, lengths, np.array([not text for text in texts]))
                num_tokens += len(ids)
                advance(sum(map(len, texts)))
            writer.close()
            if not num_tokens:
                names = ", ".join(self.files) or "no files"
                raise InputError(
                    f"the corpus contains no text ({names}); expected one sentence per line"
                )


def _lines(file: str) -> Iterator[str]:
    with open_file(file) as lines:
        for number, line in enumerate(lines, start=1):
            line = line.replace(b"\r", b"")
            if not line:
                return  # carriage returns at the end of a file are not a line
            try:
                yield line.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise utf8_error(file, number, error) from error
