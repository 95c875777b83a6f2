"""Tokenizes words, divides their tokens into rows that fit a model, and encodes the words' tags.

Legend: W words, M words of a batch, B rows, T tokens of a row, K layers, D hidden size.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_keras.data.encoded import Encoded
from bert_keras.text.packing import flatten, pack_texts
from bert_keras.text.tokenizer import TextTokenizer, google_words, is_dropped
from bert_keras.text.vocab import Vocabulary

OUTSIDE = "O"  # the tag of a word that belongs to no entity
TAG = re.compile(r"O|[BI]-.+")

Entity = tuple[int, int, str]  # index of the first word, index after the last word, type


@dataclass(frozen=True)
class Sentence:
    """A sentence of a file, divided into words."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None  # one for each word; None if the file has words only
    document: int  # the number of -DOCSTART- lines before it; 0 in a file without such lines
    line: int  # the line of its first word; the other words follow on the next lines


def find_entities(tags: Sequence[str]) -> Iterator[Entity]:
    """Yields the entities of a sentence.

    A tag without a prefix, such as NOUN, starts an entity, and so does an I- tag after O or after
    another type.
    """
    start, entity_type = 0, ""  # "" outside of an entity
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, tag_type = tag.partition("-") if TAG.fullmatch(tag) else ("B", "", tag)
        if prefix == "I" and tag_type == entity_type:
            continue
        if entity_type:
            yield start, index, entity_type
        start, entity_type = index, tag_type


def bio_tags(labels: Sequence[str]) -> list[str]:
    """Returns labels as BIO tags. If O is a label, "PER" becomes "I-PER", otherwise "B-PER"."""
    prefix = "I" if OUTSIDE in labels else "B"
    return [label if TAG.fullmatch(label) else f"{prefix}-{label}" for label in labels]


@dataclass(frozen=True)
class WordTokens:
    """The M tokens of the W words of N sentences."""

    ids: np.ndarray  # int32 [M], the token ids
    starts: np.ndarray  # int64 [W], the index in `ids` of the first token of each word
    bounds: np.ndarray  # int64 [N+1], the index in `ids` of each sentence's first token, and M
    word_bounds: np.ndarray  # int64 [N+1], the number of words before each sentence, and W


def tokenize_words(sentences: Sequence[Sentence], tokenizer: TextTokenizer) -> WordTokens:
    """Tokenizes each word by itself, after a space, because RoBERTa's tokens depend on it.

    A word without tokens becomes [UNK], because its tag is predicted at its first token.
    """
    words = chain.from_iterable(sentence.words for sentence in sentences)
    ids, counts = tokenizer.flat_ids([f" {word}" for word in words])
    is_empty = counts == 0
    ids = np.insert(ids, (np.cumsum(counts) - counts)[is_empty], tokenizer.vocabulary.unk_id)
    ends = np.cumsum(np.where(is_empty, 1, counts))
    starts = np.concatenate([[0], ends])
    word_bounds = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    return WordTokens(ids, starts[:-1], starts[word_bounds], word_bounds)


def tokenize_units(
    texts: Sequence[str], tokenizer: TextTokenizer, *, unit: str
) -> tuple[WordTokens, np.ndarray]:
    """Returns the tokens of texts, and the characters [start, end) of their units, int64 [W,2].

    The units are the words of the result. With the unit "word", white space, punctuation and CJK
    characters separate units, and each is tokenized by itself. With "eojeol", only white space
    separates units. With "token", each token is a unit, except white space of byte-level BPE.
    """
    if unit == "word":
        lowercase = tokenizer.lowercase and not tokenizer.vocabulary.rules
        words = [google_words(text, lowercase=lowercase) for text in texts]
        sentences = [Sentence(tuple(word.text for word in row), None, 0, 1) for row in words]
        spans = [(min(word.indices), max(word.indices) + 1) for row in words for word in row]
        return tokenize_words(sentences, tokenizer), np.array(spans, np.int64).reshape(-1, 2)
    encoded = tokenizer.encode_batch(texts)
    ids, counts = flatten([text.ids for text in encoded])
    offsets_M2 = np.array([span for text in encoded for span in text.offsets], np.int64)
    offsets_M2 = offsets_M2.reshape(-1, 2)
    bounds = np.append(0, np.cumsum(counts))
    is_first, has_text = np.ones((2, len(ids)), bool)
    for text, start, end in zip(texts, bounds[:-1], bounds[1:], strict=True):
        is_space = [character.isspace() and not is_dropped(character) for character in text]
        offsets = offsets_M2[start:end]
        num_spaces = np.cumsum([0, *is_space])[offsets]
        has_text[start:end] = (np.diff(num_spaces) < np.diff(offsets))[:, 0]
        if unit == "eojeol":
            is_first[start:end] = np.diff(num_spaces[:, 0], prepend=-1) != 0
    offsets_M2 = offsets_M2[has_text]
    unit_of_token = np.cumsum(is_first)[has_text] - 1
    units, first, counts = np.unique(unit_of_token, return_index=True, return_counts=True)
    starts = np.flatnonzero(is_first)[units]
    spans_W2 = np.stack([offsets_M2[first, 0], offsets_M2[first + counts - 1, 1]], axis=1)
    return WordTokens(ids, starts, bounds, np.searchsorted(starts, bounds)), spans_W2


class WordWindows(NamedTuple):
    """R rows of tokens, without special tokens, and the row in which each word is predicted.

    Each word is predicted in exactly one row, and each row predicts at least one word.
    """

    starts: np.ndarray  # int64 [R], the index of the first token in `WordTokens.ids`
    lengths: np.ndarray  # int64 [R], in tokens
    word_rows: np.ndarray  # int64 [W], ascending, the row in which the word is predicted
    word_starts: np.ndarray  # int64 [W], the position of the word's first token in this row


def make_rows(
    tokens: WordTokens, *, limit: int, documents: np.ndarray | None = None
) -> WordWindows:
    """Divides each sentence into one or more rows of at most `limit` tokens.

    The rows of a sentence that is too long start `limit // 2` tokens apart, and the last row ends
    with the sentence. A word is predicted in the row whose middle is nearest, where it has the most
    context (google-research/bert run_squad.py, `_check_is_max_context`).

    Args:
        tokens: The tokens of N sentences.
        limit: The most tokens of a row, without special tokens.
        documents: Int [N], the document of each sentence, ascending. If given, rows are filled with
            tokens before and after the sentence from its document, equally many if possible.
    """
    starts, ends = tokens.bounds[:-1], tokens.bounds[1:]
    documents = np.arange(len(starts)) if documents is None else documents
    max_before = starts - tokens.bounds[np.searchsorted(documents, documents, side="left")]
    max_after = tokens.bounds[np.searchsorted(documents, documents, side="right")] - ends
    num_context = np.maximum(limit - (ends - starts), 0)
    before = np.minimum(np.maximum(num_context // 2, num_context - max_after), max_before)
    after = np.minimum(num_context - before, max_after)
    text_starts, text_ends = starts - before, ends + after

    stride = max(limit // 2, 1)
    num_rows = 1 + -(-np.maximum(text_ends - text_starts - limit, 0) // stride)
    # For each row: its sentence, and its number among the rows of this sentence
    sentences = np.repeat(np.arange(len(num_rows)), num_rows)
    nth = np.arange(len(sentences)) - np.repeat(np.cumsum(num_rows) - num_rows, num_rows)
    lengths = np.minimum(text_ends - text_starts, limit)[sentences]
    row_starts = np.minimum(text_starts[sentences] + nth * stride, text_ends[sentences] - lengths)

    # Halfway between the middles of two consecutive rows, the later row takes over.
    switches = (row_starts[:-1] + row_starts[1:] + limit - 1) // 2 + 1
    predicted_from = np.where(nth == 0, starts[sentences], np.concatenate([[0], switches]))
    word_rows = np.searchsorted(predicted_from, tokens.starts, side="right") - 1
    used_rows, word_rows = np.unique(word_rows, return_inverse=True)
    row_starts, lengths = row_starts[used_rows], lengths[used_rows]
    return WordWindows(row_starts, lengths, word_rows, tokens.starts - row_starts[word_rows])


@dataclass(frozen=True)
class TaggedWords(Encoded):
    """Rows of tokens, with the tag of each word as the target of its first token."""

    tokens: WordTokens  # the tokens of all words
    rows: WordWindows  # the tokens of each row, and the row of each word
    label_ids: np.ndarray  # int32 [W]; -1 for a word without a tag, or with an unknown tag
    vocabulary: Vocabulary
    # The characters [start, end) of each word in its text, int64; empty if nothing needs them.
    spans_W2: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @cached_property
    def lengths(self) -> np.ndarray:
        return self.rows.lengths + 2  # [CLS] and [SEP]

    @property
    def examples(self) -> np.ndarray:
        first_words = np.searchsorted(self.rows.word_rows, np.arange(len(self)))
        return np.searchsorted(self.tokens.word_bounds, first_words, side="right") - 1

    def columns(self, row: int) -> np.ndarray:
        """Returns the columns of the words of a row in its targets and outputs, int64."""
        return self.rows.word_starts[self._words(row)] + 1  # [CLS] is at 0

    def words(self, rows: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Returns the words predicted in some rows, int64 [M], and their (batch rows, columns)."""
        words, columns = list(map(self._words, rows)), list(map(self.columns, rows))
        batch_rows = np.repeat(np.arange(len(rows)), list(map(len, columns)))
        return np.concatenate(words), (batch_rows, np.concatenate(columns))

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        inputs = self.inputs(rows)
        return inputs, *self.targets(rows, width=inputs["input_ids"].shape[1])

    def inputs(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the inputs of a fine-tuned encoder for some rows by name, int32 [B,T]."""
        return pack_texts(
            self.tokens.ids,
            self.rows.starts[rows, None],
            self.rows.lengths[rows, None],
            length=self.num_columns(rows),
            vocabulary=self.vocabulary,
        )

    def targets(self, rows: np.ndarray, *, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the label ids, int32, and the weights, float32, of some rows, [B, width]."""
        words, positions = self.words(rows)
        label_ids = np.zeros((len(rows), width), np.int32)
        weights = np.zeros((len(rows), width), np.float32)
        label_ids[positions] = np.maximum(self.label_ids[words], 0)
        weights[positions] = self.label_ids[words] >= 0
        return label_ids, weights

    def _words(self, row: int) -> np.ndarray:
        return np.arange(*np.searchsorted(self.rows.word_rows, (row, row + 1)))
