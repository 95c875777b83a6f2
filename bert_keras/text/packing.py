"""Encodes texts, and packs ids into rows: `[CLS] A [SEP] B [SEP]`, or `<s> A </s></s> B </s>`."""

import re
from collections.abc import Callable, Mapping, Sequence
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
    is_mask_BT = inputs["input_ids"] == tokenizer.vocabulary.mask_id
    positions_BP = np.zeros((len(texts), is_mask_BT.sum(axis=1).max(initial=0)), np.int32)
    for positions_P, is_mask_T in zip(positions_BP, is_mask_BT, strict=True):
        positions = np.flatnonzero(is_mask_T)
        positions_P[: len(positions)] = positions
    return {**inputs, "masked_lm_positions": positions_BP}


def ids_with_masks(texts: Sequence[str], tokenizer: "TextTokenizer") -> list[list[int]]:
    """Same as `tokenizer.ids_batch`, but each "[MASK]" in a text becomes the mask token."""
    parts_of_texts = [re.split(MASK_PATTERN, text) for text in texts]
    ids_of_parts = iter(tokenizer.ids_batch(list(chain.from_iterable(parts_of_texts))))
    rows = []
    for parts in parts_of_texts:
        ids = next(ids_of_parts).copy()
        for _ in parts[1:]:  # a mask token stands between two parts
            ids += [tokenizer.vocabulary.mask_id, *next(ids_of_parts)]
        rows.append(ids)
    return rows


class TextSpans(NamedTuple):
    """M texts in the order of their places in packed rows. Each field is an array [M]."""

    rows: np.ndarray  # the row of each text
    columns: np.ndarray  # the column of the text's first token, after [CLS] or [SEP]
    starts: np.ndarray  # the index of the text's first token in the array of all token ids
    lengths: np.ndarray  # the number of tokens
    segments: np.ndarray  # 0 for a first text, 1 for a second text
    is_first: np.ndarray  # bool, whether the text is the first of its sequence


def span_indices(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the indices `start ... start + length - 1` of each span, concatenated, int64."""
    num_before = np.cumsum(lengths) - lengths  # the number of indices before each span
    return np.arange(lengths.sum()) + np.repeat(starts - num_before, lengths)


def flatten(texts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the concatenated ids of all texts, int32 [M], and their lengths, int64 [N]."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.fromiter(chain.from_iterable(texts), np.int32, int(lengths.sum())), lengths


def truncated_lengths(
    length_a: Any, length_b: Any, *, limit: int, shortens_first: bool = False
) -> tuple[Any, Any]:
    """Returns the lengths of texts A and B after they are cut to `limit` tokens together.

    The result is the same as if single tokens were removed from the longer text, B if both are
    equally long, until both fit (google-research/bert `truncate_seq_pair`).

    Args:
        length_a, length_b: Integers or arrays.
        limit: The largest sum of both lengths.
        shortens_first: Whether to cut as the library `tokenizers` (transformers): if both texts are
            cut and `limit` is odd, the longer text keeps the extra token, B if both are equally
            long. Otherwise A keeps it.
    """
    # 1 if A keeps the extra token of an odd `limit` when both texts are cut, otherwise 0.
    extra = length_a > length_b if shortens_first else 1
    truncated_a = np.minimum(length_a, np.maximum(limit - length_b, (limit + extra) // 2))
    return truncated_a, np.minimum(length_b, limit - truncated_a)


def pack(
    firsts: Sequence[Sequence[int]],
    seconds: Sequence[Sequence[int]] | None = None,
    *,
    vocabulary: Vocabulary,
    max_length: int,
    choose_length: Callable[[int, int], int] = min,
) -> dict[str, np.ndarray]:
    """Packs the ids of one text, or two, into each row, and truncates texts that do not fit.

    Args:
        firsts, seconds: The token ids of the first and the second text of each row.
        vocabulary: The vocabulary of the ids and the special tokens.
        max_length: Maximum number of tokens of a row, special tokens included.
        choose_length: Returns T for the length of the longest row and `max_length`.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. Padding is 0 in the last two.
    """
    num_rows, num_texts = len(firsts), 1 if seconds is None else 2  # N, K
    num_specials = vocabulary.num_specials(num_texts)
    check_count("max_length", max_length, least=num_specials + 1)
    tokens, lengths = flatten([*firsts, *(seconds or ())])
    starts_KN = (np.cumsum(lengths) - lengths).reshape(num_texts, num_rows)
    lengths_KN = lengths.reshape(num_texts, num_rows)
    limit = max_length - num_specials
    if seconds is None:
        lengths_KN = np.minimum(lengths_KN, limit)
    else:
        rule = {"limit": limit, "shortens_first": vocabulary.shortens_first}
        lengths_KN = np.stack(truncated_lengths(*lengths_KN, **rule))
    longest = int((lengths_KN.sum(axis=0) + num_specials).max(initial=0))
    length = choose_length(longest, max_length)
    return pack_texts(tokens, starts_KN.T, lengths_KN.T, length=length, vocabulary=vocabulary)


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
        tokens: int, the token ids of all texts, concatenated.
        starts_NK: int, the index in `tokens` of the first token of each text.
        lengths_NK: int, the number of tokens of each text; the texts must fit.
        length: The number of columns, T.
        vocabulary: The vocabulary of the ids and the special tokens.
    """
    num_rows, num_texts = starts_NK.shape
    num_separators = vocabulary.specials.num_separators
    # The special tokens before each text are [CLS] for the first text, otherwise separators.
    num_before_K = np.where(np.arange(num_texts) == 0, 1, num_separators)
    columns_NK = np.cumsum(num_before_K + lengths_NK, axis=1) - lengths_NK
    spans = TextSpans(
        rows=np.repeat(np.arange(num_rows), num_texts),
        columns=columns_NK.ravel(),
        starts=starts_NK.ravel(),
        lengths=lengths_NK.ravel(),
        segments=np.tile(np.arange(num_texts), num_rows),
        is_first=np.tile(np.arange(num_texts) == 0, num_rows),
    )
    return pack_spans(tokens, spans, num_rows=num_rows, length=length, vocabulary=vocabulary)


def pack_spans(
    tokens: np.ndarray, spans: TextSpans, *, num_rows: int, length: int, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Packs texts into rows, with special tokens around them; returns the arrays of `pack`.

    Args:
        tokens: int, the token ids of all texts, concatenated.
        spans: The texts and their places, with space for the special tokens.
        num_rows, length: The shape of the arrays, [B,T].
        vocabulary: The vocabulary of the ids and the special tokens.
    """
    num_separators = vocabulary.specials.num_separators
    # Places are counted in the flattened rows. A block is a text with its special tokens: [CLS] or
    # a second separator before it, and a separator after it.
    text_starts = np.asarray(spans.rows, np.int64) * length + spans.columns
    block_starts = text_starts - np.where(spans.is_first, 1, num_separators - 1)
    block_ends = text_starts + spans.lengths + 1
    bounds = np.stack([block_starts, block_ends], axis=1).ravel()  # start, end, start, end, ...
    # The lengths of padding and blocks in turn: padding, block, padding, ..., block, padding.
    run_lengths = np.diff(bounds, prepend=0, append=num_rows * length)

    def fill(values: Any, dtype: Any = np.int32) -> np.ndarray:
        """Returns flattened rows with the value of each text in its block, and 0 at padding."""
        run_values = np.zeros(len(run_lengths), dtype)
        run_values[1::2] = values
        return np.repeat(run_values, run_lengths)

    # `tokens` contains the token at place i of the rows at i + offset.
    offsets = fill(spans.starts - text_starts, np.int64)
    indices = np.arange(num_rows * length) + offsets
    # At special tokens and padding, this reads a wrong id, which is overwritten below. "clip" keeps
    # these indices inside `tokens`.
    input_ids = np.take(tokens, indices, mode="clip") if len(tokens) else np.zeros_like(indices)
    input_ids = input_ids.astype(np.int32)
    input_mask = fill(1)
    np.copyto(input_ids, vocabulary.pad_id, where=input_mask == 0)
    input_ids[text_starts[spans.is_first] - 1] = vocabulary.cls_id
    input_ids[block_ends - 1] = vocabulary.sep_id
    if num_separators == 2:
        input_ids[block_starts[~spans.is_first]] = vocabulary.sep_id
    segment_ids = fill(spans.segments * vocabulary.specials.second_segment)
    arrays = {"input_ids": input_ids, "input_mask": input_mask, "segment_ids": segment_ids}
    return {name: array.reshape(num_rows, length) for name, array in arrays.items()}


def packing_features(inputs: Mapping[str, np.ndarray], *, cls_id: int) -> dict[str, np.ndarray]:
    """Returns the features of rows that several sequences share, from the arrays of `pack`.

    `position_ids` restart at 0 at each [CLS], and `sequence_ids` count the sequences of a row from
    1, int32 [B,T]. Both are 0 for padding.
    """
    is_cls, mask = inputs["input_ids"] == cls_id, inputs["input_mask"]
    columns = np.arange(mask.shape[1])
    starts = np.maximum.accumulate(np.where(is_cls, columns, 0), axis=1)
    features = {"position_ids": columns - starts, "sequence_ids": np.cumsum(is_cls, axis=1)}
    return {name: (values * mask).astype(np.int32) for name, values in features.items()}
