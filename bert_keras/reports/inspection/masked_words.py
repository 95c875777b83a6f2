"""Computes what a masked language model predicts at each [MASK], or at each token in turn."""

from collections.abc import Callable
from typing import cast

import numpy as np
from keras import ops

from bert_keras.models.pretrained import Pretrained
from bert_keras.tasks.task import softmax
from bert_keras.text.vocab import Vocabulary

ROWS_AT_ONCE = 16


def masked_words(
    model: Pretrained, inputs: dict[str, np.ndarray], vocabulary: Vocabulary, *, num_pieces: int
) -> dict:
    """Predicts the masked tokens of a text, all at once.

    A text without [MASK] has every token but [CLS] and [SEP] masked by itself.

    Args:
        model: Any model.
        inputs: The text or pair as int32 [1, T].
        vocabulary: The model's vocabulary.
        num_pieces: The number of most probable tokens to return.

    Returns:
        `places`, each with its `position`, the `top` tokens with their probabilities and, where it
        was not [MASK], its `own` token with probability and rank from 1; for a pair and a
        next-sentence head also the probability `is_next`. For a model without a masked-LM head
        only `missing`, the name of the model.
    """
    if "masked_lm" not in model.architecture.heads:
        return {"missing": model.architecture.name}
    ids_T = inputs["input_ids"][0]
    masked = np.flatnonzero(ids_T == vocabulary.mask_id)
    if len(masked):
        places, rows = masked, {**inputs, "masked_lm_positions": masked[None].astype(np.int32)}
    else:
        places = np.flatnonzero(~np.isin(ids_T, (vocabulary.cls_id, vocabulary.sep_id)))
        rows = {name: np.repeat(array, len(places), axis=0) for name, array in inputs.items()}
        rows["input_ids"][np.arange(len(places)), places] = vocabulary.mask_id
        rows["masked_lm_positions"] = places[:, None].astype(np.int32)
    logits_RPV = _answers(model, rows, "masked_lm")
    shares_PV = softmax(logits_RPV.reshape(len(places), -1))
    told: dict = {"places": []}
    for place, shares_V in zip(places, shares_PV, strict=True):
        order = np.argsort(-shares_V, kind="stable")
        top = [[vocabulary.pieces[each], float(shares_V[each])] for each in order[:num_pieces]]
        told["places"].append({"position": int(place), "top": top})
        if not len(masked):
            own = ids_T[place]
            rank = int(np.flatnonzero(order == own)[0]) + 1
            told["places"][-1]["own"] = [vocabulary.pieces[own], float(shares_V[own]), rank]
    if "next_sentence" in model.architecture.heads and (ids_T == vocabulary.sep_id).sum() > 1:
        asked = {**inputs, "masked_lm_positions": np.zeros((1, 1), np.int32)}
        told["is_next"] = float(softmax(_answers(model, asked, "next_sentence"))[0, 0])
    return told


def _answers(model: Pretrained, rows: dict[str, np.ndarray], head: str) -> np.ndarray:
    """The logits of a head, without `predict`: its tracing takes longer than these rows."""
    batches = (
        {name: array[start : start + ROWS_AT_ONCE] for name, array in rows.items()}
        for start in range(0, len(rows["input_ids"]), ROWS_AT_ONCE)
    )
    call = cast(Callable[[dict], dict], model)
    return np.concatenate([np.asarray(ops.convert_to_numpy(call(b)[head])) for b in batches])
