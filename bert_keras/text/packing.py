"""Packs token ids into padded rows of `[CLS] A [SEP] B [SEP]`, one or more sequences a row.

The special tokens are those of the vocabulary: RoBERTa's rows are `<s> A </s></s> B </s>`, and all
their tokens have segment id 0.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from bert_keras.errors import check, check_count
from bert_keras.text.vocab import Vocabulary


class TextSpans(NamedTuple):
    """M texts and their positions in the packed rows; each field is int [M].

    The texts are ordered by row and column. The tokens of a text are
    `tokens[start : start + length]`, where `tokens` is one flat array of ids.
    """

    rows: np.ndarray  # the row of each text
    # The column of the first token of each text. It follows a [CLS] if the text is the first of its
    # sequence, otherwise the [SEP] (or both) of the preceding text.
    columns: np.ndarray
    starts: np.ndarray  # the index of the first token in the flat array
    lengths: np.ndarray  # in tokens
    segments: np.ndarray  # segment ids
    sequences: np.ndarray  # numbers of the sequences within a row, from 1


def span_indices(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the indices `start ... start + length - 1` of all spans, concatenated, int64."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def joined(texts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the concatenated ids of all texts, int32 [M], and the ids per text, int64 [N]."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.fromiter(chain.from_iterable(texts), np.int32, int(lengths.sum())), lengths


def truncated_lengths(length_a, length_b, *, limit: int, shortens_first: bool = False):
    """Returns the lengths of texts A and B, integers or arrays, cut to `limit` tokens together.

    Tokens are removed one at a time from the longer text, and from B if both are equally long
    (google-research/bert `truncate_seq_pair`). With `shortens_first`, A has the smaller half unless
    it is the longer text ("longest_first" of `tokenizers`, and so of transformers).
    """
    gains = length_a > length_b if shortens_first else 1
    truncated_a = np.minimum(length_a, np.maximum(limit - length_b, (limit + gains) // 2))
    return truncated_a, np.minimum(length_b, limit - truncated_a)


def pack(
    firsts: Sequence[Sequence[int]],
    seconds: Sequence[Sequence[int]] | None = None,
    *,
    vocabulary: Vocabulary,
    max_length: int,
    num_columns: Callable[[int, int], int] = min,
) -> dict[str, np.ndarray]:
    """Packs one text, or two, into each row, and truncates texts that do not fit.

    Args:
        firsts: The token ids of the first text of each row.
        seconds: The token ids of the second text of each row.
        vocabulary: Gives the special tokens.
        max_length: Maximum number of tokens of a row, special tokens included.
        num_columns: Returns T for the length of the longest row, the default, and `max_length`.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. The first text and the [SEP] after
        it have segment id 0. Padding is [PAD] with mask 0 and segment id 0.
    """
    num_texts = 1 if seconds is None else 2
    num_specials = vocabulary.num_specials(num_texts)
    check_count("max_length", max_length, least=num_specials + 1)
    counts = len(firsts), len(firsts if seconds is None else seconds)
    found = "there are {} first and {} second texts".format(*counts)
    check(counts[0] == counts[1], f"{found}; expected the same number")
    tokens, lengths = joined([*firsts, *(seconds or ())])
    starts_NK = (np.cumsum(lengths) - lengths).reshape(num_texts, -1).T
    lengths_NK = lengths.reshape(num_texts, -1).T
    limit = max_length - num_specials
    if seconds is None:
        lengths_NK = np.minimum(lengths_NK, limit)
    else:
        rule = vocabulary.shortens_first
        lengths = truncated_lengths(*lengths_NK.T, limit=limit, shortens_first=rule)
        lengths_NK = np.stack(lengths, axis=1)
    longest = int((lengths_NK.sum(axis=1) + num_specials).max(initial=0))
    length = num_columns(longest, max_length)
    return packed_texts(tokens, starts_NK, lengths_NK, length=length, vocabulary=vocabulary)


def packed_texts(
    tokens: np.ndarray,
    starts_NK: np.ndarray,
    lengths_NK: np.ndarray,
    *,
    length: int,
    vocabulary: Vocabulary,
) -> dict[str, np.ndarray]:
    """Packs N sequences of K texts, each sequence in its own row of `length`; the texts must fit.

    `tokens` are the ids of all texts in one flat array, in which they start. Returns the arrays of
    `packed`, int32 [N,T]; text k has segment id k times the vocabulary's `second_segment`.
    """
    num_rows, num_texts = starts_NK.shape
    num_separators = vocabulary.specials.num_separators
    # Special tokens before each text: [CLS] before the first, separators before the others.
    before_K = np.where(np.arange(num_texts) == 0, 1, num_separators)
    spans = TextSpans(
        rows=np.repeat(np.arange(num_rows), num_texts),
        columns=(np.cumsum(lengths_NK + before_K, axis=1) - lengths_NK).ravel(),
        starts=starts_NK.ravel(),
        lengths=lengths_NK.ravel(),
        segments=np.tile(np.arange(num_texts), num_rows),
        sequences=np.ones(starts_NK.size, np.int64),
    )
    return packed(tokens, spans, num_rows=num_rows, length=length, vocabulary=vocabulary)


def packed(
    tokens: np.ndarray, spans: TextSpans, *, num_rows: int, length: int, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Packs texts of the flat array `tokens` into rows at their positions; they must fit.

    Returns `input_ids`, `input_mask` and `segment_ids`, int32 [num_rows,length].
    """
    specials = vocabulary.specials
    num_separators = specials.num_separators
    runs = _Runs.of(spans, num_rows=num_rows, length=length, num_separators=num_separators)
    indices = runs.repeated(spans.starts - runs.text_starts, np.int64)
    indices += np.arange(num_rows * length)
    is_text = runs.repeated(np.ones(len(spans.rows)), np.int32)
    # At special tokens this reads some neighbouring id, which the lines below overwrite; "clip"
    # keeps these indices inside `tokens`.
    input_ids = np.take(tokens, indices, mode="clip") if len(tokens) else np.zeros_like(indices)
    input_ids = input_ids.astype(np.int32)
    np.copyto(input_ids, vocabulary.pad_id, where=is_text == 0)
    input_ids[runs.starts[runs.starts < runs.text_starts]] = vocabulary.sep_id
    input_ids[runs.text_starts[runs.is_first] - 1] = vocabulary.cls_id
    input_ids[runs.ends - 1] = vocabulary.sep_id
    segments = np.asarray(spans.segments) * specials.second_segment
    shape = (num_rows, length)
    return {
        "input_ids": input_ids.reshape(shape),
        "input_mask": is_text.reshape(shape),
        "segment_ids": runs.repeated(segments, np.int32).reshape(shape),
    }


def packing_features(
    spans: TextSpans, *, num_rows: int, length: int, num_separators: int = 1
) -> dict[str, np.ndarray]:
    """Returns the features that separate the sequences of a row; the arguments are as for `packed`.

    They are `position_ids`, which restart at 0 at each [CLS], and `sequence_ids`, the number of the
    sequence of each token, from 1. Both are int32 [num_rows,length] and 0 for padding.
    """
    runs = _Runs.of(spans, num_rows=num_rows, length=length, num_separators=num_separators)
    first_text = np.maximum.accumulate(np.where(runs.is_first, np.arange(len(runs.is_first)), 0))
    starts = runs.starts[first_text]
    sequence_ids = runs.repeated(spans.sequences, np.int32)
    position_ids = np.arange(num_rows * length, dtype=np.int32) - runs.repeated(starts, np.int32)
    position_ids[sequence_ids == 0] = 0
    features = {"position_ids": position_ids, "sequence_ids": sequence_ids}
    return {name: values.reshape(num_rows, length) for name, values in features.items()}


class _Runs(NamedTuple):
    """Divides the flattened rows into runs: padding, a text, padding, a text, ..., padding.

    The run of a text includes the [SEP] after it. It also includes the [CLS] before the first text
    of a sequence, or the second of two [SEP]s before any other text. Runs of padding may be empty.
    """

    is_first: np.ndarray  # bool [M], whether the text is the first of its sequence
    text_starts: np.ndarray  # int [M], index of the first token of each text
    starts: np.ndarray  # int [M], index of the first token of each run of a text
    ends: np.ndarray  # int [M], index after the last token of each run of a text
    lengths: np.ndarray  # int [2M+1], lengths of all runs: padding, text, ..., text, padding

    @classmethod
    def of(cls, spans: TextSpans, *, num_rows: int, length: int, num_separators: int) -> "_Runs":
        is_first = np.ones(len(spans.rows), bool)
        is_first[1:] = np.diff(spans.rows).astype(bool) | np.diff(spans.sequences).astype(bool)
        text_starts = np.asarray(spans.rows, np.int64) * length + spans.columns
        starts = text_starts - np.where(is_first, 1, num_separators - 1)
        ends = text_starts + spans.lengths + 1
        bounds = np.stack([starts, ends], axis=1).ravel()
        lengths = np.diff(bounds, prepend=0, append=num_rows * length)
        return cls(is_first, text_starts, starts, ends, lengths)

    def repeated(self, values: np.ndarray, dtype) -> np.ndarray:
        """Repeats the value of each text at all positions of its run; padding gets 0."""
        run_values = np.zeros(len(self.lengths), dtype)
        run_values[1::2] = values
        return np.repeat(run_values, self.lengths)
