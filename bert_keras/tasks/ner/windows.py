"""Pieces of sentences in; rows that fit a model, in one of which each word has its place, out."""

from typing import NamedTuple

import numpy as np

from bert_keras.tasks.ner.pieces import WordPieces


class Rows(NamedTuple):
    """R rows: `starts`, int64 [R], in the ids of all pieces, and `lengths`, int64 [R], in pieces.

    The tag of a word is predicted at its first piece in row `word_rows`, int64 [W], ascending, at
    place `word_places`, int64 [W]. Each word has one row; each row has such words.
    """

    starts: np.ndarray
    lengths: np.ndarray
    word_rows: np.ndarray
    word_places: np.ndarray


def rows_around(pieces: WordPieces, reach: np.ndarray, *, limit: int) -> Rows:
    """A row for each sentence, filled on both sides with what `reach`, int64 [N, 2], lets it read:
    from which piece to before which. Neither side gets more than the other, but where one ends.

    A sentence of more than `limit` pieces has several rows, each half its length after the one
    before, the last at its end. A word goes where it has most context, which is the row whose
    middle is nearest (google-research/bert run_squad.py, `_check_is_max_context`).
    """
    begins, ends = pieces.bounds[:-1], pieces.bounds[1:]
    spare = np.maximum(limit - (ends - begins), 0)
    room_before, room_after = begins - reach[:, 0], reach[:, 1] - ends
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
    return Rows(starts, lengths, word_rows, pieces.firsts - starts[word_rows])


def own_reach(pieces: WordPieces) -> np.ndarray:
    """Each sentence by itself."""
    return np.stack([pieces.bounds[:-1], pieces.bounds[1:]], axis=1)


def document_reach(pieces: WordPieces, documents: np.ndarray) -> np.ndarray:
    """Each sentence in its document; `documents`, int [N], ascending, tells whose it is."""
    first = np.searchsorted(documents, documents, side="left")
    after_last = np.searchsorted(documents, documents, side="right")
    return np.stack([pieces.bounds[first], pieces.bounds[after_last]], axis=1)
