"""Tokenizes a unit of the corpus: its sentences as ids go to a token store, counted.

A sentence longer than a record is cut into parts of equal length, for what does not fit into a
record is lost. A sentence behind another of its line keeps the blank before it, which counts where
pieces are of bytes. Where whole words are to be masked, the id of a piece that continues a word is
raised by the size of the vocabulary.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from bert_keras.storage import whole_folder
from bert_keras.text.fast_tokenizer import tokenizer_of, vocabulary_from
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.corpus import lines_of
from tfrecords_tools.inputs.decoding import Repairs
from tfrecords_tools.inputs.parts import Unit, grouped, num_bytes_of
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.plugins import continues, named_function
from tfrecords_tools.text.sentences import splitter
from tfrecords_tools.text.store import TokenWriter, piece_dtype

COUNTS = "counts.pickle"
_TOGETHER = 1 << 17  # characters that are tokenised at once


def store_dtype(settings: BuildSettings, vocabulary: Path) -> np.dtype:
    """The type of the ids in a token store, raised ones included."""
    size = len(_vocabulary(vocabulary))
    return piece_dtype(2 * size if settings.masks_written_words else size)


@dataclass(frozen=True)
class TokenizeUnit:
    """A job: the token store of one unit, with its counts and repairs beside."""

    unit: Unit
    output: Path
    vocabulary: Path
    settings: BuildSettings

    @property
    def size(self) -> int:
        return num_bytes_of(self.unit)

    def __call__(self, advance: Callable[[int], object]) -> None:
        settings, vocabulary = self.settings, _vocabulary(self.vocabulary)
        longest = settings.max_length - vocabulary.num_specials(2)
        counts, repairs = Counter(), Repairs()
        lines = lines_of(self.unit, repairs=repairs, errors=settings.errors)
        with (
            whole_folder(self.output) as folder,
            TokenWriter(folder, dtype=store_dtype(settings, self.vocabulary)) as writer,
        ):
            for texts, opens in _batches(lines, sentences_of(settings.splitter, vocabulary)):
                ids, lengths = _encoded(texts, self.vocabulary, settings)
                counts["unknown"] += int(
                    np.count_nonzero(ids % len(vocabulary) == vocabulary.unk_id)
                )
                counts["long_sentences_cut"] += int(np.count_nonzero(lengths > longest))
                writer.add(ids, *cut_to_fit(lengths, opens, longest=longest))
                advance(sum(map(len, texts)))
            writer.close()
            counts["documents"] = writer.num_documents
            (folder / COUNTS).write_bytes(pickle.dumps((counts, repairs)))


def counts_of(store: Path) -> tuple[Counter, Repairs]:
    """What `TokenizeUnit` counted."""
    return pickle.loads((store / COUNTS).read_bytes())


def cut_to_fit(
    lengths: np.ndarray, opens: np.ndarray, *, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Both anew, where a sentence of more than `longest` pieces becomes parts of like length."""
    if lengths.max(initial=0) <= longest:
        return lengths, opens
    num_parts = np.maximum(1, -(-lengths // longest))
    number = np.arange(num_parts.sum()) - np.repeat(num_parts.cumsum() - num_parts, num_parts)
    shortest, rest = np.repeat([lengths // num_parts, lengths % num_parts], num_parts, axis=1)
    return shortest + (number < rest), np.repeat(opens, num_parts) & (number == 0)


def sentences_of(name: str, vocabulary: Vocabulary | None) -> Callable[[str], list[str]]:
    """The sentences of a line; where blanks may count, each with the one before it."""
    split = splitter(name)
    if vocabulary is None or not vocabulary.rules:
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
    """Sentences of some documents, and which of them are the first of one, bool."""
    is_first = True
    for together in grouped(lines, size_of=len, most=_TOGETHER):
        texts, opens = [], []
        for line in together:
            for text in sentences(line) if line else ():
                texts.append(text)
                opens.append(is_first)
                is_first = False
            is_first = is_first or not line
        if texts:
            yield texts, np.array(opens)


def _encoded(
    texts: list[str], vocabulary: Path, settings: BuildSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Ids int [M], those that continue a word raised where asked, and lengths int64 [N]."""
    tokenizer = _tokenizer(vocabulary, settings.lowercase)
    if not settings.masks_written_words:
        return tokenizer.flat_ids(texts)
    size, goes_on = len(tokenizer.vocabulary), _goes_on(vocabulary)
    if settings.segmenter is None:
        ids, lengths = tokenizer.flat_ids(texts)
        raised = goes_on[ids]
        raised[(np.cumsum(lengths) - lengths)[lengths > 0]] = False  # a text begins with a word
        return ids + raised * size, lengths
    words, tokenized = named_function(settings.segmenter), tokenizer.encode_batch(texts)
    found = [continues(t, each, words(t)) for t, each in zip(texts, tokenized, strict=True)]
    lengths = np.array([len(each.ids) for each in tokenized], np.int64)
    ids = np.fromiter(chain.from_iterable(each.ids for each in tokenized), np.int64)
    raised = np.fromiter(chain.from_iterable(found), bool, len(ids))
    if not tokenizer.vocabulary.rules:
        raised |= goes_on[ids]  # no segmenter divides what WordPiece has for a word
    return ids + raised * size, lengths


@cache
def _vocabulary(path: Path) -> Vocabulary:
    return vocabulary_from(path)


@cache
def _tokenizer(vocabulary: Path, lowercase: bool) -> TextTokenizer:
    return tokenizer_of(_vocabulary(vocabulary), lowercase=lowercase)


@cache
def _goes_on(vocabulary: Path) -> np.ndarray:
    """bool [V]: the pieces that continue a word by themselves."""
    found = _vocabulary(vocabulary)
    return np.array(list(map(found.continues, found.pieces)))
