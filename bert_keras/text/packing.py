"""Ids of one or two texts come in; padded `[CLS] A [SEP] B [SEP]` batches go out."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary


def truncated_lengths(length_a, length_b, *, limit: int):
    """Lengths of A and B after cutting one token at a time from the longer until both fit.

    Integers or int arrays alike. A tie cuts B (google-research/bert `truncate_seq_pair`).
    """
    kept_a = np.minimum(length_a, np.maximum(limit - length_b, (limit + 1) // 2))
    return kept_a, np.minimum(length_b, limit - kept_a)


def pack(
    firsts: Sequence[Sequence[int]],
    seconds: Sequence[Sequence[int]] | None = None,
    *,
    vocabulary: Vocabulary,
    max_length: int,
) -> dict[str, np.ndarray]:
    """`input_ids`, `input_mask`, `segment_ids`, each int32 [B,T]; too long texts lose their ends.

    T is the longest sequence of the batch, at most `max_length`. Segment 0 reaches through the
    first [SEP]; padding is [PAD] with mask 0 and segment 0.
    """
    num_specials = 2 if seconds is None else 3
    if max_length <= num_specials:
        raise InputError(
            f"max_length is {max_length}; expected more than the {num_specials} special pieces"
        )
    if seconds is not None and len(firsts) != len(seconds):
        raise InputError(f"{len(firsts)} first texts came with {len(seconds)} second texts")
    pairs = [*firsts, *(seconds or ())]
    lengths = np.fromiter(map(len, pairs), np.int64, len(pairs))
    starts = np.cumsum(lengths) - lengths
    pieces = np.fromiter(chain.from_iterable(pairs), np.int32, int(lengths.sum()))
    start_a, length_a = starts[: len(firsts)], lengths[: len(firsts)]
    limit = max_length - num_specials
    if seconds is None:
        length_a = np.minimum(length_a, limit)
        start_b = length_b = None
    else:
        start_b = starts[len(firsts) :]
        length_a, length_b = truncated_lengths(length_a, lengths[len(firsts) :], limit=limit)
    total = length_a + (0 if length_b is None else length_b) + num_specials
    return pack_spans(
        pieces,
        start_a=start_a,
        length_a=length_a,
        start_b=start_b,
        length_b=length_b,
        vocabulary=vocabulary,
        length=int(total.max(initial=0)),
    )


def pack_spans(
    pieces: np.ndarray,
    *,
    start_a: np.ndarray,
    length_a: np.ndarray,
    start_b: np.ndarray | None,
    length_b: np.ndarray | None,
    vocabulary: Vocabulary,
    length: int,
) -> dict[str, np.ndarray]:
    """The same batches, int32 [B,length], from spans of one flat int array `pieces` that fit."""
    column = np.arange(length)[None]
    first_sep = 1 + np.asarray(length_a)[:, None]
    input_ids = np.full((len(start_a), length), vocabulary.pad_id, np.int32)
    input_ids[:, :1] = vocabulary.cls_id

    def place(start, after, end):
        row, place_in_row = np.nonzero((column > after) & (column < end))
        input_ids[row, place_in_row] = pieces[start[row] + place_in_row - after[row, 0] - 1]
        np.put_along_axis(input_ids, end, vocabulary.sep_id, axis=1)

    place(np.asarray(start_a), np.zeros_like(first_sep), first_sep)
    last_sep = first_sep
    if start_b is not None:
        last_sep = first_sep + 1 + np.asarray(length_b)[:, None]
        place(np.asarray(start_b), first_sep, last_sep)
    return {
        "input_ids": input_ids,
        "input_mask": (column <= last_sep).astype(np.int32),
        "segment_ids": ((column > first_sep) & (column <= last_sep)).astype(np.int32),
    }
