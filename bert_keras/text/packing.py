"""Packs token ids into padded rows of `[CLS] A [SEP] B [SEP]`, one or more sequences a row.

The special tokens are those of the vocabulary: RoBERTa's rows are `<s> A </s></s> B </s>`, all of
one segment.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_keras.errors import InputError
from bert_keras.text.vocab import Vocabulary


class Spans(NamedTuple):
    """Texts and where they stand, int [M] each, in the order of rows and columns.

    A text is `pieces[starts : starts + lengths]` of one flat array and begins at (`rows`,
    `columns`) behind a [CLS], if it is the first of its sequence, or behind the [SEP] of the text
    before it. `segments` is its segment id; `sequences` numbers the sequences of a row from 1.
    """

    rows: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    segments: np.ndarray
    sequences: np.ndarray


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
    """Packs token ids as rows of `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`.

    Args:
        firsts: The token ids of the first text of each row.
        seconds: The token ids of the second text of each row.
        vocabulary: Has the ids of the special tokens.
        max_length: The longest row in tokens, special tokens included. The longer text of a longer
            row is cut at its end.

    Returns:
        `input_ids`, `input_mask` (0 for padding) and `segment_ids` (0 up to the first [SEP] and
        for padding), int32 [B, T], where T is the length of the longest row.

    Raises:
        InputError: `max_length` has no room for a token, or the numbers of texts differ.
    """
    num_texts = 1 if seconds is None else 2
    num_specials = vocabulary.num_specials(num_texts)
    if max_length <= num_specials:
        raise InputError(
            f"max_length is {max_length}; expected more than the {num_specials} special pieces"
        )
    if seconds is not None and len(firsts) != len(seconds):
        raise InputError(f"{len(firsts)} first texts came with {len(seconds)} second texts")
    texts = [*firsts, *(seconds or ())]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    starts = np.cumsum(lengths) - lengths
    pieces = np.fromiter(chain.from_iterable(texts), np.int32, int(lengths.sum()))
    starts_NK = starts.reshape(num_texts, -1).T
    lengths_NK = lengths.reshape(num_texts, -1).T
    limit = max_length - num_specials
    if seconds is None:
        lengths_NK = np.minimum(lengths_NK, limit)
    else:
        lengths_NK = np.stack(truncated_lengths(*lengths_NK.T, limit=limit), axis=1)
    length = int((lengths_NK.sum(axis=1) + num_specials).max(initial=0))
    return packed_texts(pieces, starts_NK, lengths_NK, length=length, vocabulary=vocabulary)


def packed_texts(
    pieces: np.ndarray,
    starts_NK: np.ndarray,
    lengths_NK: np.ndarray,
    *,
    length: int,
    vocabulary: Vocabulary,
) -> dict[str, np.ndarray]:
    """Packs N sequences of K texts that fit, each in its own row, as `packed` does; the segments of
    a row are 0 to K-1."""
    num_rows, num_texts = starts_NK.shape
    num_separators = vocabulary.specials.num_separators
    before_K = np.where(np.arange(num_texts) == 0, 1, num_separators)  # [CLS], or [SEP]s
    spans = Spans(
        rows=np.repeat(np.arange(num_rows), num_texts),
        columns=(np.cumsum(lengths_NK + before_K, axis=1) - lengths_NK).ravel(),
        starts=starts_NK.ravel(),
        lengths=lengths_NK.ravel(),
        segments=np.tile(np.arange(num_texts), num_rows),
        sequences=np.ones(starts_NK.size, np.int64),
    )
    return packed(pieces, spans, num_rows=num_rows, length=length, vocabulary=vocabulary)


def packed(
    pieces: np.ndarray, spans: Spans, *, num_rows: int, length: int, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """`input_ids`, `input_mask`, `segment_ids`, int32 [num_rows,length], of spans that fit.

    `pieces` is one flat array of ids, of any integer type.
    """
    specials = vocabulary.specials
    num_separators = specials.num_separators
    runs = _Runs.of(spans, num_rows=num_rows, length=length, num_separators=num_separators)
    places = runs.spread(spans.starts - runs.text_begins, np.int64)
    places += np.arange(num_rows * length)
    is_text = runs.spread(np.ones(len(spans.rows)), np.int32)
    # A [CLS] or [SEP] reads the piece beside its text, or the nearest, before it is overwritten.
    input_ids = np.take(pieces, places, mode="clip") if len(pieces) else np.zeros_like(places)
    input_ids = input_ids.astype(np.int32)
    np.copyto(input_ids, vocabulary.pad_id, where=is_text == 0)
    input_ids[runs.begins[runs.begins < runs.text_begins]] = vocabulary.sep_id
    input_ids[runs.text_begins[runs.opens] - 1] = vocabulary.cls_id
    input_ids[runs.ends - 1] = vocabulary.sep_id
    segments = np.asarray(spans.segments) * specials.second_segment
    shape = (num_rows, length)
    return {
        "input_ids": input_ids.reshape(shape),
        "input_mask": is_text.reshape(shape),
        "segment_ids": runs.spread(segments, np.int32).reshape(shape),
    }


def kept_apart(
    spans: Spans, *, num_rows: int, length: int, num_separators: int = 1
) -> dict[str, np.ndarray]:
    """What tells the sequences of a row apart, int32 [num_rows,length], 0 where padded.

    `position_ids` begin at 0 with each [CLS]; `sequence_ids` are the numbers of the sequences.
    """
    runs = _Runs.of(spans, num_rows=num_rows, length=length, num_separators=num_separators)
    first_text = np.maximum.accumulate(np.where(runs.opens, np.arange(len(runs.opens)), 0))
    begins = runs.begins[first_text]
    sequence_ids = runs.spread(spans.sequences, np.int32)
    position_ids = np.arange(num_rows * length, dtype=np.int32) - runs.spread(begins, np.int32)
    position_ids[sequence_ids == 0] = 0
    shape = (num_rows, length)
    return {
        "position_ids": position_ids.reshape(shape),
        "sequence_ids": sequence_ids.reshape(shape),
    }


class _Runs(NamedTuple):
    """Rows laid end to end as runs: a text with its [SEP] and, where it opens a sequence, its
    [CLS], or else the second of two [SEP]s; then what is empty before the next; and so on."""

    opens: np.ndarray  # bool [M]: the text is the first of its sequence
    text_begins: np.ndarray  # int [M]
    begins: np.ndarray  # int [M], with the [CLS] or second [SEP]
    ends: np.ndarray  # int [M], with the [SEP]
    lengths: np.ndarray  # int [2M+1]: empty, text, empty, ..., text, empty

    @classmethod
    def of(cls, spans: Spans, *, num_rows: int, length: int, num_separators: int = 1) -> "_Runs":
        opens = np.ones(len(spans.rows), bool)
        opens[1:] = np.diff(spans.rows).astype(bool) | np.diff(spans.sequences).astype(bool)
        text_begins = np.asarray(spans.rows, np.int64) * length + spans.columns
        begins = text_begins - np.where(opens, 1, num_separators - 1)
        ends = text_begins + spans.lengths + 1
        bounds = np.stack([begins, ends], axis=1).ravel()
        lengths = np.diff(bounds, prepend=0, append=num_rows * length)
        if lengths.min() < 0:
            raise AssertionError("texts overlap, or are not in the order of rows and columns")
        return cls(opens, text_begins, begins, ends, lengths)

    def spread(self, values: np.ndarray, dtype) -> np.ndarray:
        """One value a text to one a place, 0 where empty."""
        of_runs = np.zeros(len(self.lengths), dtype)
        of_runs[1::2] = values
        return np.repeat(of_runs, self.lengths)
