"""Tokenizes sentences of words and divides their pieces into windows that fit a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_keras.tasks.ner.files import Sentence
from bert_keras.text.tokenizer import TextTokenizer


@dataclass(frozen=True)
class WordPieces:
    """M pieces of the W words of N sentences.

    `ids`, int32 [M]. `firsts`, int64 [W], are the places in `ids` of the first piece of each word;
    `bounds`, int64 [N+1], those of each sentence's first piece, and M; `word_bounds`, int64 [N+1],
    count the words before each sentence, and W.
    """

    ids: np.ndarray
    firsts: np.ndarray
    bounds: np.ndarray
    word_bounds: np.ndarray


def word_pieces(sentences: Sequence[Sentence], tokenizer: TextTokenizer) -> WordPieces:
    """Each word is tokenized by itself, behind a blank, which counts in RoBERTa. One that comes to
    nothing (control characters alone) is read as [UNK], for every word needs a piece that its tag
    is predicted from."""
    words = chain.from_iterable(sentence.words for sentence in sentences)
    ids, counts = tokenizer.flat_ids([f" {word}" for word in words])
    empty = counts == 0
    ids = np.insert(ids, (np.cumsum(counts) - counts)[empty], tokenizer.vocabulary.unk_id)
    ends = np.cumsum(np.where(empty, 1, counts))
    starts = np.concatenate([[0], ends])
    word_bounds = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    return WordPieces(ids, starts[:-1], starts[word_bounds], word_bounds)


class WordWindows(NamedTuple):
    """R rows: `starts`, int64 [R], in the ids of all pieces, and `lengths`, int64 [R], in pieces.

    The tag of a word is predicted at its first piece in row `word_rows`, int64 [W], ascending, at
    place `word_places`, int64 [W]. Each word has one row; each row has such words.
    """

    starts: np.ndarray
    lengths: np.ndarray
    word_rows: np.ndarray
    word_places: np.ndarray


def rows_around(
    pieces: WordPieces, *, limit: int, documents: np.ndarray | None = None
) -> WordWindows:
    """Make a row of at most `limit` tokens of each sentence.

    With `documents`, int [N], ascending, the document of each sentence, a row is filled on both
    sides with what surrounds the sentence in its document. Neither side gets more than the other,
    but where one ends.

    A sentence of more than `limit` pieces has several rows, each half its length after the one
    before, the last at its end. A word goes where it has most context, which is the row whose
    middle is nearest (google-research/bert run_squad.py, `_check_is_max_context`).
    """
    begins, ends = pieces.bounds[:-1], pieces.bounds[1:]
    documents = np.arange(len(begins)) if documents is None else documents
    document_begins = pieces.bounds[np.searchsorted(documents, documents, side="left")]
    document_ends = pieces.bounds[np.searchsorted(documents, documents, side="right")]
    spare = np.maximum(limit - (ends - begins), 0)
    room_before, room_after = begins - document_begins, document_ends - ends
    before = np.minimum(np.maximum(spare // 2, spare - room_after), room_before)
    after = np.minimum(spare - before, room_after)
    first_starts, stops = begins - before, ends + after

    stride = max(limit // 2, 1)
    num_rows = 1 + -(-np.maximum(stops - first_starts - limit, 0) // stride)
    sentences = np.repeat(np.arange(len(num_rows)), num_rows)
    nth = np.arange(len(sentences)) - np.repeat(np.cumsum(num_rows) - num_rows, num_rows)
    lengths = np.minimum(stops - first_starts, limit)[sentences]
    starts = np.minimum(first_starts[sentences] + nth * stride, stops[sentences] - lengths)

    between = (starts[:-1] + starts[1:] + limit - 1) // 2 + 1  # past the middle of two middles
    owned_from = np.where(nth == 0, begins[sentences], np.concatenate([[0], between]))
    owners = np.searchsorted(owned_from, pieces.firsts, side="right") - 1
    kept, word_rows = np.unique(owners, return_inverse=True)
    starts, lengths = starts[kept], lengths[kept]
    return WordWindows(starts, lengths, word_rows, pieces.firsts - starts[word_rows])
