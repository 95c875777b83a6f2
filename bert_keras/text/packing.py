"""Encodes texts, and packs ids into rows: `[CLS] A [SEP] B [SEP]`, or `<s> A </s></s> B </s>`."""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_keras.errors import check_count, suggest_keyword_names
from bert_keras.text.columns import checked_columns
from bert_keras.text.vocab import Vocabulary

if TYPE_CHECKING:
    from bert_keras.text.tokenizer import TextTokenizer

MASK = "[MASK]"
# Includes the white space before "[MASK]", which RoBERTa would turn into tokens.
MASK_PATTERN = r"[\t-\r ]*\[MASK\]"


@suggest_keyword_names
def encode(
    tokenizer: "TextTokenizer",
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    max_length: int,
) -> dict[str, np.ndarray]:
    """Encodes texts, or pairs of texts, as rows of `[CLS] text [SEP] text_pair [SEP]`.

    Args:
        tokenizer: The tokenizer of the model, such as `model.tokenizer`.
        texts: The first text of each row.
        text_pairs: The second text of each row.
        max_length: Maximum number of tokens of a row, special tokens included. A longer row loses
            tokens at the end of its longer text.

    Returns:
        `input_ids`, `input_mask` (1 for a token, 0 for padding) and `segment_ids`, int32 [B,T],
        where T is the length of the longest row.

    Raises:
        InputError: `texts` and `text_pairs` differ in number, one of them is a single string or
            has an item that is not a valid string, or `max_length` leaves no space for a token.

    Example:

    ```python
    model = BertClassifier.from_pretrained("films")
    logits = model(encode(model.tokenizer, ["a good film"], max_length=128))
    ```
    """
    columns = checked_columns(texts, text_pairs)
    ids = [tokenizer.ids_batch(column) for column in columns]
    return pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)


@suggest_keyword_names
def encode_masked(
    tokenizer: "TextTokenizer",
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    max_length: int,
) -> dict[str, np.ndarray]:
    """Encodes texts in which each "[MASK]" is a token that a `BertMaskedLM` predicts.

    Args:
        tokenizer: The tokenizer of the model, such as `model.tokenizer`.
        texts: The first text of each row.
        text_pairs: The second text of each row.
        max_length: Maximum number of tokens of a row, special tokens included.

    Returns:
        The arrays of `encode`, and `masked_lm_positions`, int32 [B,P], the positions of the mask
        tokens of each row, padded with 0.

    Raises:
        InputError: As for `encode`.
    """
    columns = checked_columns(texts, text_pairs)
    ids = [ids_with_masks(column, tokenizer) for column in columns]
    inputs = pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
    rows, positions = np.nonzero(inputs["input_ids"] == tokenizer.vocabulary.mask_id)
    num_masks = np.bincount(rows, minlength=len(texts))
    positions_BP = np.zeros((len(texts), num_masks.max(initial=0)), np.int32)
    positions_BP[np.arange(positions_BP.shape[1]) < num_masks[:, None]] = positions
    return {**inputs, "masked_lm_positions": positions_BP}


def ids_with_masks(texts: Sequence[str], tokenizer: "TextTokenizer") -> list[list[int]]:
    """Same as `tokenizer.ids_batch`, but each "[MASK]" in a text becomes the mask token."""
    parts = [re.split(MASK_PATTERN, text) for text in texts]
    ids = iter(tokenizer.ids_batch(list(chain.from_iterable(parts))))
    mask_id = tokenizer.vocabulary.mask_id
    return [list(chain.from_iterable((mask_id, *next(ids)) for _ in text))[1:] for text in parts]


class TextSpans(NamedTuple):
    """M texts, ordered by row and column, and their positions in packed rows; int [M] each."""

    rows: np.ndarray  # the row of each text
    columns: np.ndarray  # the column of the text's first token, after [CLS] or [SEP]
    starts: np.ndarray  # the index of the text's first token in the flat array
    lengths: np.ndarray  # the number of tokens
    segments: np.ndarray  # segment ids
    sequences: np.ndarray  # sequence ids, which count from 1 in each row


def span_indices(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the indices `start ... start + length - 1` of all spans, concatenated, int64."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def flatten(texts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the concatenated ids of all texts, int32 [M], and the ids per text, int64 [N]."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.fromiter(chain.from_iterable(texts), np.int32, int(lengths.sum())), lengths


def truncated_lengths(
    length_a: Any, length_b: Any, *, limit: int, shortens_first: bool = False
) -> tuple[Any, Any]:
    """Returns the lengths of texts A and B that fit `limit` tokens together.

    Tokens are removed one at a time from the longer text, as in google-research/bert
    `truncate_seq_pair`.

    Args:
        length_a, length_b: Integers or arrays.
        shortens_first: Whether A, not B, loses a token if both are equally long (transformers).
    """
    # If both texts are cut and `limit` is odd, A gets the extra token where this is 1.
    extra = length_a > length_b if shortens_first else 1
    truncated_a = np.minimum(length_a, np.maximum(limit - length_b, (limit + extra) // 2))
    return truncated_a, np.minimum(length_b, limit - truncated_a)


def pack(
    firsts: Sequence[Sequence[int]],
    seconds: Sequence[Sequence[int]] | None = None,
    *,
    vocabulary: Vocabulary,
    max_length: int,
    num_columns: Callable[[int, int], int] = min,
) -> dict[str, np.ndarray]:
    """Packs the ids of one text, or two, into each row, and truncates texts that do not fit.

    Args:
        max_length: Maximum number of tokens of a row, special tokens included.
        num_columns: Returns T for the length of the longest row and `max_length`.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. Padding is 0 in the last two.
    """
    num_texts = 1 if seconds is None else 2
    num_specials = vocabulary.num_specials(num_texts)
    check_count("max_length", max_length, least=num_specials + 1)
    tokens, lengths = flatten([*firsts, *(seconds or ())])
    shape, limit = (num_texts, len(firsts)), max_length - num_specials
    starts_NK = (np.cumsum(lengths) - lengths).reshape(shape).T
    lengths_NK = np.minimum(lengths.reshape(shape).T, limit)
    if seconds is not None:
        rule = {"limit": limit, "shortens_first": vocabulary.shortens_first}
        lengths_NK = np.stack(truncated_lengths(*lengths.reshape(shape), **rule), axis=1)
    longest = int((lengths_NK.sum(axis=1) + num_specials).max(initial=0))
    length = num_columns(longest, max_length)
    return pack_texts(tokens, starts_NK, lengths_NK, length=length, vocabulary=vocabulary)


def pack_texts(
    tokens: np.ndarray,
    starts_NK: np.ndarray,
    lengths_NK: np.ndarray,
    *,
    length: int,
    vocabulary: Vocabulary,
) -> dict[str, np.ndarray]:
    """Packs N sequences of K texts, each sequence in its own row; returns the arrays of `pack`.

    Args:
        tokens: int [M], the ids of all texts.
        starts_NK: int, the index in `tokens` of the first token of each text.
        lengths_NK: int, the number of tokens of each text; the texts must fit.
    """
    num_rows, num_texts = starts_NK.shape
    num_separators = vocabulary.specials.num_separators
    # The special tokens before each text are [CLS] for the first text, otherwise separators.
    num_before_K = np.where(np.arange(num_texts) == 0, 1, num_separators)
    spans = TextSpans(
        rows=np.repeat(np.arange(num_rows), num_texts),
        columns=(np.cumsum(lengths_NK + num_before_K, axis=1) - lengths_NK).ravel(),
        starts=starts_NK.ravel(),
        lengths=lengths_NK.ravel(),
        segments=np.tile(np.arange(num_texts), num_rows),
        sequences=np.ones(starts_NK.size, np.int64),
    )
    return pack_spans(tokens, spans, num_rows=num_rows, length=length, vocabulary=vocabulary)


def pack_spans(
    tokens: np.ndarray, spans: TextSpans, *, num_rows: int, length: int, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Packs texts, whose ids are in `tokens`, at their positions; returns the arrays of `pack`."""
    specials = vocabulary.specials
    num_separators = specials.num_separators
    runs = _Runs.of(spans, num_rows=num_rows, length=length, num_separators=num_separators)
    indices = runs.repeat(spans.starts - runs.text_starts, np.int64)
    indices += np.arange(num_rows * length)
    is_text = runs.repeat(np.ones(len(spans.rows)), np.int32)
    # For special tokens, this reads a neighbouring id, which is overwritten below; "clip" keeps
    # these indices inside `tokens`.
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
        "segment_ids": runs.repeat(segments, np.int32).reshape(shape),
    }


def packing_features(
    spans: TextSpans, *, num_rows: int, length: int, num_separators: int = 1
) -> dict[str, np.ndarray]:
    """Returns the features that separate the sequences of a row, int32 [num_rows,length].

    `position_ids` restart at 0 at each [CLS]; `sequence_ids` count from 1; both are 0 for padding.
    """
    runs = _Runs.of(spans, num_rows=num_rows, length=length, num_separators=num_separators)
    first_text = np.maximum.accumulate(np.where(runs.is_first, np.arange(len(runs.is_first)), 0))
    starts = runs.starts[first_text]
    sequence_ids = runs.repeat(spans.sequences, np.int32)
    position_ids = np.arange(num_rows * length, dtype=np.int32) - runs.repeat(starts, np.int32)
    position_ids[sequence_ids == 0] = 0
    features = {"position_ids": position_ids, "sequence_ids": sequence_ids}
    return {name: values.reshape(num_rows, length) for name, values in features.items()}


class _Runs(NamedTuple):
    """Alternating runs of the flattened rows: padding, text with special tokens, padding, ..."""

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

    def repeat(self, values: np.ndarray, dtype) -> np.ndarray:
        """Repeats the value of each text at all positions of its run; padding gets 0."""
        run_values = np.zeros(len(self.lengths), dtype)
        run_values[1::2] = values
        return np.repeat(run_values, self.lengths)
