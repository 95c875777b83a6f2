"""A classifier and its tokenizer come in; requests to its export, with its answers, go out.

The inputs are made by the code of training, not by that of the graph.
"""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.answers import Answer
from bert_keras.export.classifier_signatures import TEXT_INPUTS
from bert_keras.export.servable import SAMPLE_TEXTS, Sample, long_text, plain, samples_of
from bert_keras.export.windows_in_graph import WINDOWS_AT_ONCE
from bert_keras.tasks.texts import windows_of
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer


def samples(
    model: keras.Model,
    *,
    answer: Answer,
    num_labels: int,
    tokenizer: TextTokenizer,
    max_length: int,
    num_texts: int,
    stride: int | None,
) -> list[Sample]:
    """To both signatures: short texts and one that is too long, together, then one alone. With a
    `stride` the long one has more windows than the graph reads at once.
    """
    num_pieces = max_length + WINDOWS_AT_ONCE * (stride or 0)
    texts = [*SAMPLE_TEXTS, long_text(tokenizer, num_pieces=num_pieces)]
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
            if logits.shape[1] != num_labels:
                raise InputError(f"{num_labels} labels came with {logits.shape[1]} logits")
            outputs = plain(answer.outputs(logits))
        found += samples_of(dict(zip(TEXT_INPUTS, chosen, strict=False)), inputs, outputs)
    return found


def _windows(
    ids: list[list[list[int]]], tokenizer: TextTokenizer, *, max_length: int, stride: int
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
