"""Encodes texts as the inputs of a model."""

from collections.abc import Sequence

import numpy as np

from bert_keras.errors import suggest_keyword_names
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer, check_column, check_texts, ids_with_masks


@suggest_keyword_names
def encode(
    tokenizer: TextTokenizer,
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
            has an item that is no valid string, or `max_length` leaves no space for a token.

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
    tokenizer: TextTokenizer,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    max_length: int,
) -> dict[str, np.ndarray]:
    """Encodes texts in which each "[MASK]" is a token that a `BertMaskedLM` predicts.

    The arguments and errors are the same as for `encode`.

    Returns:
        The arrays of `encode`, and `masked_lm_positions`, int32 [B,P], the positions of the mask
        tokens of each row, padded with 0.
    """
    columns = checked_columns(texts, text_pairs)
    ids = [ids_with_masks(column, tokenizer) for column in columns]
    inputs = pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
    rows, positions = np.nonzero(inputs["input_ids"] == tokenizer.vocabulary.mask_id)
    num_masks = np.bincount(rows, minlength=len(texts))
    positions_BP = np.zeros((len(texts), num_masks.max(initial=0)), np.int32)
    positions_BP[np.arange(positions_BP.shape[1]) < num_masks[:, None]] = positions
    return {**inputs, "masked_lm_positions": positions_BP}


def checked_columns(*columns: Sequence[str] | None) -> list[list[str]]:
    """Returns the columns that are not None; raises InputError for what is no string."""
    texts = []
    for column in columns:
        if column is not None:
            check_column(column)
            texts.append(list(column))
            check_texts(texts[-1])
    return texts
