"""A classifier and its tokenizer come in; requests to its export, and the logits for them, go out.

The inputs are made by the code of training, not by that of the graph.
"""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.signatures import TEXT_INPUTS
from bert_keras.export.windows_in_graph import WINDOWS_AT_ONCE
from bert_keras.tasks.texts import windows_of
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer

_SHORT = (
    "A short sentence.",
    "",
    "Café [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
)
_PHRASE = "words, more than fit; "


class Sample(NamedTuple):
    """A request as export/verify.py takes it; the Keras model's logits for it, float32 [B,N]."""

    request: dict
    logits: tf.Tensor


def samples(
    model: keras.Model,
    *,
    tokenizer: WordPieceTokenizer,
    max_length: int,
    num_texts: int,
    stride: int | None,
) -> list[Sample]:
    """To both signatures: short texts and one that is too long, together, then one alone. With a
    `stride` the long one has more windows than the graph reads at once.
    """
    num_pieces = max_length + WINDOWS_AT_ONCE * (stride or 0)
    (phrase,) = tokenizer.ids_batch([_PHRASE])
    texts = [*_SHORT, _PHRASE * (1 + num_pieces // len(phrase))]
    columns = [texts]
    if num_texts == 2:
        columns.insert(0, texts[::-1])
    if num_texts == 2 and stride is not None:
        ids = tokenizer.ids_batch(columns[0])
        room = max_length // 2 - 3  # a first text that leaves little makes thousands of windows
        columns[0] = [t if len(i) <= room else "" for t, i in zip(columns[0], ids, strict=True)]
    found = []
    for rows in (slice(None), slice(1)):
        chosen = [column[rows] for column in columns]
        ids = [tokenizer.ids_batch(column) for column in chosen]
        if stride is None:
            inputs = pack(*ids, vocabulary=tokenizer.vocabulary, max_length=max_length)
        else:
            inputs = _windows(ids, tokenizer, max_length=max_length, stride=stride)
        with tf.device("CPU:0"):
            logits = model(inputs, training=False)
        tensors = {name: array.tolist() for name, array in inputs.items()}
        by_name = dict(zip(TEXT_INPUTS, chosen, strict=False))
        found += [
            Sample({"signature": "serving_default", "inputs": by_name}, logits),
            Sample({"signature": "tensors", "inputs": tensors}, logits),
        ]
    return found


def _windows(
    ids: list[list[list[int]]], tokenizer: WordPieceTokenizer, *, max_length: int, stride: int
) -> dict[str, np.ndarray]:
    rows = np.arange(len(ids[0]))
    encoded = windows_of(
        tuple(ids),
        rows,  # in place of targets
        max_length=max_length,
        stride=stride,
        vocabulary=tokenizer.vocabulary,
        places=[f"sample {row}" for row in rows],
    )
    return encoded.batch(rows)[0]
