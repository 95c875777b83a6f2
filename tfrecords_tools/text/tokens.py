"""Tokenizes a unit of the corpus and writes the ids of its sentences to a token store.

A sentence that is longer than a record is cut into parts of equal length. For whole word masking,
the id of a token that continues a word is raised by the size of the vocabulary.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.packing import flatten
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import lines_of
from tfrecords_tools.inputs.text_files import Unit, grouped, num_bytes_of
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.sentences import continues, import_function, splitter
from tfrecords_tools.text.store import TokenWriter, token_dtype

_BATCH_CHARACTERS = 1 << 19  # tokenized at once
_cached_tokenizer = cache(tokenizer_of)


def store_dtype(settings: BuildSettings, vocabulary: Vocabulary) -> np.dtype:
    """Returns the type of the ids in a token store, including raised ids."""
    size = len(vocabulary)
    return token_dtype(2 * size if settings.masks_written_words else size)


@dataclass(frozen=True)
class TokenizeUnit:
    """A job that writes the token store of one unit and returns its counts."""

    unit: Unit
    output: Path
    vocabulary: Vocabulary
    settings: BuildSettings

    @property
    def size(self) -> int:
        return num_bytes_of(self.unit)

    def __call__(self) -> dict[str, Any]:
        settings, vocabulary = self.settings, self.vocabulary
        longest = settings.max_length - vocabulary.num_specials(2)
        counts = Counter()
        split = sentence_splitter(settings.splitter, vocabulary)
        with TokenWriter(self.output, dtype=store_dtype(settings, vocabulary)) as writer:
            for texts, is_first in _batches(lines_of(self.unit), split):
                ids, lengths = _encoded(texts, vocabulary, settings)
                is_unknown = ids % len(vocabulary) == vocabulary.unk_id
                counts["unknown"] += int(np.count_nonzero(is_unknown))
                counts["long_sentences_cut"] += int(np.count_nonzero(lengths > longest))
                writer.add(ids, *cut_to_fit(lengths, is_first, longest=longest))
        return {"documents": writer.num_documents, "counts": counts}


def cut_to_fit(
    lengths: np.ndarray, is_first: np.ndarray, *, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts sentences of more than `longest` tokens into nearly equal parts.

    Args and result: int [N], the lengths, and bool [N], whether one is the first of a document.
    """
    num_parts = np.maximum(1, -(-lengths // longest))
    part = np.arange(num_parts.sum()) - np.repeat(num_parts.cumsum() - num_parts, num_parts)
    shortest, rest = np.repeat([lengths // num_parts, lengths % num_parts], num_parts, axis=1)
    return shortest + (part < rest), np.repeat(is_first, num_parts) & (part == 0)


def sentence_splitter(name: str, vocabulary: Vocabulary) -> Callable[[str], list[str]]:
    """Returns a splitter; without WordPiece each sentence keeps the preceding blank."""
    split = splitter(name)
    if not vocabulary.rules:
        return split

    def with_blanks(line: str) -> list[str]:
        texts, end = [], 0
        for text in split(line):
            start = line.find(text, end)
            end = max(end, start + len(text))
            texts.append(f" {text}" if start > 0 and line[start - 1].isspace() else text)
        return texts

    return with_blanks


def _batches(
    lines: Iterable[str], sentences: Callable[[str], list[str]]
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields batches: sentences, and for each whether it is the first of a document (bool)."""
    is_next_first = True
    for batch in grouped(lines, size_of=len, most=_BATCH_CHARACTERS):
        texts, is_first = [], []
        for line in batch:
            for text in sentences(line) if line else ():
                texts.append(text)
                is_first.append(is_next_first)
                is_next_first = False
            is_next_first = is_next_first or not line
        if texts:
            yield texts, np.array(is_first)


def _encoded(
    texts: list[str], vocabulary: Vocabulary, settings: BuildSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids, int [M], raised for word masking, and the length of each text, int64 [N]."""
    tokenizer = _cached_tokenizer(vocabulary, lowercase=settings.lowercase)
    if not settings.masks_written_words:
        return tokenizer.flat_ids(texts)
    size, is_continuation = len(vocabulary), _is_continuation(vocabulary)
    if settings.segmenter is None:
        ids, lengths = tokenizer.flat_ids(texts)
        raised = is_continuation[ids]
        raised[(np.cumsum(lengths) - lengths)[lengths > 0]] = False  # a text begins with a word
        return ids + raised * size, lengths
    words_of, tokenized = import_function(settings.segmenter), tokenizer.encode_batch(texts)
    flags = [continues(t, each, words_of(t)) for t, each in zip(texts, tokenized, strict=True)]
    ids, lengths = joined([each.ids for each in tokenized])
    raised = np.fromiter(chain.from_iterable(flags), bool, len(ids))
    if not vocabulary.rules:
        raised |= is_continuation[ids]  # a segmenter never divides a word of WordPiece
    return ids + raised * size, lengths


@cache
def _is_continuation(vocabulary: Vocabulary) -> np.ndarray:
    """Returns bool [V]: whether a token continues a word whatever precedes it."""
    return np.array(list(map(vocabulary.continues, vocabulary.tokens)))
