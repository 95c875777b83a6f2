"""Computes the attention of every head between the tokens of a text or a pair."""

import base64
import math
from collections.abc import Iterable, Sequence

import numpy as np
from keras import ops

from bert_keras.errors import InputError
from bert_keras.models.encoder import BertEncoder
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer, ids_with_masks

MOST_PIECES = 128  # of a map whose tokens can be read; of BERT-base a page of 6 MB
STEPS = 65_535  # the page holds probabilities in this many steps, two bytes each


def inputs_of(
    texts: Sequence[str], tokenizer: TextTokenizer, *, max_length: int, num_segments: int
) -> dict[str, np.ndarray]:
    """Packs a text or a pair, in which [MASK] may be written, into int32 arrays [1, T].

    Raises:
        InputError: There are more than two texts, one has no word, or they are too long: nothing
            is truncated.
    """
    if len(texts) > 2:
        raise InputError(f"{len(texts)} texts came; expected one, or the two of a pair")
    vocabulary, ids = tokenizer.vocabulary, ids_with_masks(texts, tokenizer)
    for text, pieces in zip(texts, ids, strict=True):
        if not pieces:
            raise InputError(f"the text {text!r} holds no word; expected at least one")
    limit = min(MOST_PIECES, max_length)
    length = sum(map(len, ids)) + vocabulary.num_specials(len(texts))
    if length > limit:
        raise InputError(
            f"the text has {length} pieces, specials counted; expected at most {limit}: shorten it"
        )
    inputs = pack(*([each] for each in ids), vocabulary=vocabulary, max_length=limit)
    if inputs["segment_ids"].max() >= (num_segments or math.inf):
        raise InputError("a pair came for a model of one segment; give one text")
    return inputs


def attention_among(
    encoder: BertEncoder, inputs: dict[str, np.ndarray], tokenizer: TextTokenizer
) -> dict:
    """Computes the attention probabilities of every layer and head.

    Returns:
        `pieces`, the T tokens; `texts`, 0 or 1 for each, the text that it is of; `weights`, base64
        of uint16 [L, N, T, T] in `STEPS`: how much the row's token attends to the column's.
    """
    attentions = encoder.states(inputs).attentions
    weights_LNTT = first_rows(attentions)
    steps = np.round(weights_LNTT * STEPS).astype("<u2")
    vocabulary, ids_T = tokenizer.vocabulary, inputs["input_ids"][0]
    is_behind_first_T = np.cumsum(ids_T == vocabulary.sep_id) - (ids_T == vocabulary.sep_id) > 0
    return {
        "pieces": [vocabulary.pieces[number] for number in ids_T],
        "texts": is_behind_first_T.astype(int).tolist(),
        "cls": vocabulary.pieces[vocabulary.cls_id],
        "sep": vocabulary.pieces[vocabulary.sep_id],
        "steps": STEPS,
        "weights": base64.b64encode(steps.tobytes()).decode(),
    }


def first_rows(layers: Iterable) -> np.ndarray:
    """[L, ...]: the first row of a tensor [B, ...] of each layer."""
    return np.stack([np.asarray(ops.convert_to_numpy(layer))[0] for layer in layers])
