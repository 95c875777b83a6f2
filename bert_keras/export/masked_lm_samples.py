"""A model of masked words and its tokenizer come in; requests with their answers go out.

The inputs are made by the code of training, not by that of the graph.
"""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.servable import SAMPLE_TEXTS, Sample, long_text, samples_of
from bert_keras.tasks.task import softmax
from bert_keras.text.gaps import MASK, ids_with_masks
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer

_CLEAR = 1e-4  # of a probability, beside the next: rounding does not exchange the two


def samples(
    model: keras.Model, *, tokenizer: TextTokenizer, max_length: int, num_pieces: int
) -> list[Sample]:
    """Texts with several masks, one, none, and more than fit; of a BertPretrainer pairs too."""
    long = long_text(tokenizer, num_pieces=max_length)
    _, empty, mixed = SAMPLE_TEXTS
    texts = [mixed, f"{MASK} and{MASK}{MASK}.", empty, f"{MASK} {long} {MASK}"]
    found = []
    for chosen in (texts, texts[:1]):
        inputs = _inputs(chosen, tokenizer=tokenizer, max_length=max_length)
        logits = _logits(model, inputs)["masked_lm"][..., : len(tokenizer.vocabulary)]
        outputs = _most_probable(
            softmax(logits),
            pieces=tokenizer.vocabulary.pieces,
            positions=inputs["masked_lm_positions"],
            num_pieces=num_pieces,
        )
        found += samples_of({"text": chosen}, inputs, outputs)
    if not hasattr(model, "next_sentence"):
        return found
    pairs = {"text": texts, "text_pair": texts[::-1]}
    inputs = _inputs(*pairs.values(), tokenizer=tokenizer, max_length=max_length)
    shares = softmax(_logits(model, inputs)["next_sentence"])
    of_text, of_tensors = samples_of(pairs, inputs, {"is_next_probability": shares[:, 0]})
    of_text.request["signature"] = "next_sentence"
    return [*found, of_text, of_tensors]


def _inputs(*columns: list[str], tokenizer: TextTokenizer, max_length: int) -> dict:
    """With the positions of the masks, 0 on the right of a row's last."""
    ids = [ids_with_masks(column, tokenizer) for column in columns]
    inputs = pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
    rows, places = np.nonzero(inputs["input_ids"] == tokenizer.vocabulary.mask_id)
    counts = np.bincount(rows, minlength=len(ids[0]))
    positions = np.zeros((len(counts), counts.max()), np.int32)
    positions[np.arange(counts.max()) < counts[:, None]] = places
    return {**inputs, "masked_lm_positions": positions}


def _logits(model: keras.Model, inputs: dict) -> dict[str, np.ndarray]:
    with tf.device("CPU:0"):
        return {name: np.asarray(each) for name, each in model(inputs, training=False).items()}


def _most_probable(
    shares_BPV: np.ndarray, *, pieces: tuple[str, ...], positions: np.ndarray, num_pieces: int
) -> dict[str, np.ndarray]:
    """`probabilities`, and `pieces` where rounding does not change their order."""
    order = np.argsort(-shares_BPV, axis=-1, kind="stable")[..., : num_pieces + 1]
    shares = np.take_along_axis(shares_BPV, order, axis=-1)
    is_real = positions > 0
    told = {"probabilities": np.where(is_real[..., None], shares[..., :num_pieces], 0)}
    if (shares[is_real][:, 1:] < (1 - _CLEAR) * shares[is_real][:, :-1]).all():
        names = np.array(pieces, object)[order[..., :num_pieces]]
        told["pieces"] = np.where(is_real[..., None], names, "")
    return told
