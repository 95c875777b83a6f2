"""Splits lines into sentences, tokenizes them and writes their ids to a token store.

The library `sentencex` (Wikimedia) decides where a sentence ends. It receives plain spaces, because
it panics at an initial before a no-break space, and windows of long lines, because its time grows
with the square of the length. Long quotations are split, and parts of Korean sentences are joined.

For whole word masking, the store also tells which tokens continue a word: their ids are raised by
the size of the vocabulary.
"""

import importlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue] - a Rust module

from bert_keras.errors import InputError, check_name
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.packing import flatten
from bert_keras.text.tokenizer import TokenizedText
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.corpus import lines_of
from tfrecords_tools.readers import Unit, group_items, num_bytes_of
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.store import TokenWriter, token_dtype

TextParts = Callable[[str], list[str]]
LANGUAGES = (  # sentencex has rules or tests for these, except ko
    "am ar bg bn ca da de el en es fi fr gu he hi hy it ja kk kn ko ml mr my nl pa pl pt ru sk ta "
    "te uk ur zh"
)
WINDOW = 2000  # characters; few paragraphs of prose are longer
LONG_QUOTATION = 300  # characters, about 70 tokens
_ODD_SPACE = re.compile(r"[^\S ]")
_QUOTATION_MARK = re.compile(r"[\"“”„«»‹›「」《》]|(?<!\w)['‘’`]|['’](?!\w)")
_OPENING_MARKS = re.compile(r"(?<=\s)[\"“„«‹'‘’`]+$")
# A number or a single letter with its full stop, or a quotation that no blank follows.
_CONTINUES_IN_KOREAN = re.compile(r"(?:\d|^\w)\.\s*$|[\"'”’)\]」』]$")
_FIRST_LETTER = re.compile(r"[\W_]*(?=[^\W\d_])(?P<letter>.)")
_BATCH_CHARACTERS = 1 << 19  # tokenized at once
_cached_tokenizer = cache(tokenizer_of)
# bool [V]: whether a token continues a word whatever precedes it.
_continuation_tokens = cache(lambda v: np.array(list(map(v.continues, v.tokens))))


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
                ids, lengths = _encode_texts(texts, vocabulary, settings)
                is_unknown = ids % len(vocabulary) == vocabulary.unk_id
                counts["unknown"] += int(np.count_nonzero(is_unknown))
                counts["long_sentences_cut"] += int(np.count_nonzero(lengths > longest))
                writer.add(ids, *divide_long_sentences(lengths, is_first, longest=longest))
        return {"documents": writer.num_documents, "counts": counts}


def divide_long_sentences(
    lengths: np.ndarray, is_first: np.ndarray, *, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Divides sentences of more than `longest` tokens into nearly equal parts.

    `lengths`, int [N], are the numbers of tokens, and `is_first`, bool [N], tells which sentences
    begin a document. Returns both arrays for the parts.
    """
    num_parts = np.maximum(1, -(-lengths // longest))  # rounds up
    # For each part: its index in the sentence, and quotient and remainder of the division.
    index = np.arange(num_parts.sum()) - np.repeat(num_parts.cumsum() - num_parts, num_parts)
    quotient, rest = np.repeat([lengths // num_parts, lengths % num_parts], num_parts, axis=1)
    return quotient + (index < rest), np.repeat(is_first, num_parts) & (index == 0)


def sentence_splitter(name: str, vocabulary: Vocabulary) -> Callable[[str], list[str]]:
    """Returns a function that splits a line; without WordPiece, sentences keep a leading blank."""
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
    for batch in group_items(lines, size_of=len, most=_BATCH_CHARACTERS):
        texts, is_first = [], []
        for line in batch:
            for text in sentences(line) if line else ():
                texts.append(text)
                is_first.append(is_next_first)
                is_next_first = False
            is_next_first = is_next_first or not line
        if texts:
            yield texts, np.array(is_first)


def _encode_texts(
    texts: list[str], vocabulary: Vocabulary, settings: BuildSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids, int [M], raised for word masking, and the length of each text, int64 [N]."""
    tokenizer = _cached_tokenizer(vocabulary, lowercase=settings.lowercase)
    if not settings.masks_written_words:
        return tokenizer.flat_ids(texts)
    size, is_continuation = len(vocabulary), _continuation_tokens(vocabulary)
    if settings.segmenter is None:
        ids, lengths = tokenizer.flat_ids(texts)
        raised = is_continuation[ids]
        first_tokens = (np.cumsum(lengths) - lengths)[lengths > 0]
        raised[first_tokens] = False  # a text begins with a word
        return ids + raised * size, lengths
    find_words, tokenized = import_function(settings.segmenter), tokenizer.encode_batch(texts)
    pairs = zip(texts, tokenized, strict=True)
    flags = [find_continuations(text, tokens, find_words(text)) for text, tokens in pairs]
    ids, lengths = flatten([each.ids for each in tokenized])
    raised = np.fromiter(chain.from_iterable(flags), bool, len(ids))
    if not vocabulary.rules:
        raised |= is_continuation[ids]  # a segmenter never divides a word of WordPiece
    return ids + raised * size, lengths


def splitter(name: str) -> TextParts:
    """Returns the function that splits a line into sentences; see `BuildSettings.splitter`."""
    if name == "lines":
        return lambda line: list(filter(None, [line.strip()]))
    if ":" in name:
        return import_function(name)
    known = ("lines", "MODULE:FUNCTION", *LANGUAGES.split())
    check_name(name, known, what="splitter, which is a language with rules,")
    return partial(sentences, language=name)


def sentences(line: str, *, language: str = "en") -> list[str]:
    """Returns the stripped sentences of a line in order; together they contain all its words."""
    text = _ODD_SPACE.sub(" ", line)
    results = []
    parts = _windowed_sentences(text, language)
    for start, sentence in _korean_sentences(parts) if language == "ko" else parts:
        lengths = [len(sentence)]
        if len(sentence) > LONG_QUOTATION:
            lengths = _quoted_lengths(sentence, language)
        for length in lengths:
            results.append(line[start : start + length].strip())
            start += length
    return [sentence for sentence in results if sentence]


def _windowed_sentences(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yields the start and the text of each sentence of a line, which is read in windows.

    The last sentence of a window may be incomplete, so the next window begins with it.
    """
    start = 0
    while start < len(text):
        end = start + WINDOW
        in_window = segment(language, text[start:end])
        if end < len(text):
            if len(in_window) > 1:
                in_window.pop()
            else:  # the window ends at its last word boundary, or at the next one
                end = text.rfind(" ", start, end) + 1 or text.find(" ", end) + 1 or len(text)
                in_window = [text[start:end]]
        for sentence in in_window:
            yield start, sentence
            start += len(sentence)


def _korean_sentences(parts: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Joins parts of a Korean sentence that `sentencex` has divided."""
    begin, sentence = 0, ""
    for start, part in parts:
        if sentence and not (part[0].isalnum() and _CONTINUES_IN_KOREAN.search(sentence)):
            yield begin, sentence
            begin, sentence = start, ""
        sentence += part
    yield begin, sentence


def _quoted_lengths(text: str, language: str) -> list[int]:
    """Splits a quotation, and returns the lengths of its sentences."""
    # No sentence begins in lower case: words such as "he said" often follow a quotation.
    lengths, start, end = [], 0, 0
    for part in segment(language, _QUOTATION_MARK.sub(" ", text)):
        end += len(part)
        opening = _OPENING_MARKS.search(text, start, end)
        stop = opening.start() if opening and end < len(text) else end
        first = _FIRST_LETTER.match(text, stop)
        is_divided = language == "ko" and _CONTINUES_IN_KOREAN.search(text[start:stop])
        if stop > start and not is_divided and not (first and first["letter"].islower()):
            lengths.append(stop - start)
            start = stop
    if start < len(text):
        lengths.append(len(text) - start)
    return lengths


def import_function(name: str) -> TextParts:
    """Imports the function "module:function", which takes a text and returns a list of texts."""
    module_name, _, function_name = name.partition(":")
    try:
        return getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{name!r} cannot be imported ({error}); expected module:function on PYTHONPATH"
        ) from error


def find_continuations(text: str, tokenized: TokenizedText, words: list[str]) -> list[bool]:
    """Returns for each token of a text whether it belongs to the word of the preceding one."""
    word_starts = find_part_starts(text, words)
    indices = [bisect_right(word_starts, start) for start, _ in tokenized.offsets]
    return [index == previous for index, previous in zip(indices, [0, *indices], strict=False)]


def find_part_starts(text: str, words: list[str]) -> list[int]:
    """Returns the index of the first character of each word; only white space may be missing."""
    starts, end = [], 0
    for word in [*words, ""]:  # nothing but white space follows the last word
        start = text.find(word, end) if word else len(text)
        if start < 0 or text[end:start].strip():
            raise InputError(
                f"the segmenter's words differ from the text after {text[:end][-20:]!r}: the next "
                f"word is {word!r}, the text {text[end : end + 20]!r}; expected every word in order"
            )
        starts.append(start)
        end = start + len(word)
    return starts[:-1]
