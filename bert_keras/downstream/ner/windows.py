"""Tokenizes sentences of words and divides their tokens into rows that fit a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_keras.downstream.ner.files import Sentence
from bert_keras.text.tokenizer import TextTokenizer


@dataclass(frozen=True)
class WordTokens:
    """The M tokens of the W words of N sentences."""

    ids: np.ndarray  # int32 [M], the token ids
    starts: np.ndarray  # int64 [W], the index in `ids` of the first token of each word
    bounds: np.ndarray  # int64 [N+1], the index in `ids` of each sentence's first token, and M
    word_bounds: np.ndarray  # int64 [N+1], the number of words before each sentence, and W


def word_tokens(sentences: Sequence[Sentence], tokenizer: TextTokenizer) -> WordTokens:
    """Tokenizes each word by itself.

    A space is added before each word, because RoBERTa's tokens depend on it. A word without tokens
    (of control characters only) becomes [UNK], because the tag of a word is predicted at its first
    token.
    """
    words = chain.from_iterable(sentence.words for sentence in sentences)
    ids, counts = tokenizer.flat_ids([f" {word}" for word in words])
    empty = counts == 0
    ids = np.insert(ids, (np.cumsum(counts) - counts)[empty], tokenizer.vocabulary.unk_id)
    ends = np.cumsum(np.where(empty, 1, counts))
    starts = np.concatenate([[0], ends])
    word_bounds = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    return WordTokens(ids, starts[:-1], starts[word_bounds], word_bounds)


class WordWindows(NamedTuple):
    """R rows of tokens, without special tokens, and the row in which each word is predicted.

    Each word is predicted in exactly one row, and each row predicts at least one word.
    """

    starts: np.ndarray  # int64 [R], the index of the first token in `WordTokens.ids`
    lengths: np.ndarray  # int64 [R], in tokens
    word_rows: np.ndarray  # int64 [W], ascending, the row in which the word is predicted
    word_starts: np.ndarray  # int64 [W], the position of the word's first token in this row


def sentence_rows(
    tokens: WordTokens, *, limit: int, documents: np.ndarray | None = None
) -> WordWindows:
    """Makes one or several rows of each sentence.

    With `documents`, a row is filled on both sides with the text around the sentence in its
    document. Both sides get equally many tokens unless the document ends on one of them.

    A sentence of more than `limit` tokens has several rows. They start `limit // 2` tokens apart,
    and the last one ends with the sentence. A word is predicted in the row where it has the most
    context, which is the row with the nearest middle (google-research/bert run_squad.py,
    `_check_is_max_context`).

    Args:
        tokens: The tokens of the sentences.
        limit: Maximum number of tokens of a row, special tokens not counted.
        documents: int [N], ascending, the number of the document of each sentence.
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
    sentences = np.repeat(np.arange(len(num_rows)), num_rows)
    nth = np.arange(len(sentences)) - np.repeat(np.cumsum(num_rows) - num_rows, num_rows)
    lengths = np.minimum(text_ends - text_starts, limit)[sentences]
    row_starts = np.minimum(text_starts[sentences] + nth * stride, text_ends[sentences] - lengths)

    # The first token after the midpoint between the middles of two consecutive rows.
    between = (row_starts[:-1] + row_starts[1:] + limit - 1) // 2 + 1
    predicted_from = np.where(nth == 0, starts[sentences], np.concatenate([[0], between]))
    word_rows = np.searchsorted(predicted_from, tokens.starts, side="right") - 1
    used_rows, word_rows = np.unique(word_rows, return_inverse=True)
    row_starts, lengths = row_starts[used_rows], lengths[used_rows]
    return WordWindows(row_starts, lengths, word_rows, tokens.starts - row_starts[word_rows])
