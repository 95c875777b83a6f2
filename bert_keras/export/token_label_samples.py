"""A token classifier and its labels come in; requests to its export, with its answers, go out.

Pieces, rows and entities are made by the code of training, not by that of the graph.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.entities_in_graph import bio_tag
from bert_keras.export.servable import Sample
from bert_keras.export.windows_in_graph import WINDOWS_AT_ONCE
from bert_keras.tasks.ner import scoring
from bert_keras.tasks.ner.encoding import TaggedWords
from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.ner.windows import own_reach, rows_around, word_pieces
from bert_keras.tasks.squad.predictions import cut
from bert_keras.tasks.task import softmax
from bert_keras.text.google_words import google_words
from bert_keras.text.tokenizer import TextTokenizer

_LEAST_LEAD = 1e-4  # of a word's label: what is nearer to another may come second in the graph
_SHORT = (
    "Anna Lee flew from Lyon to Tokyo.",
    "",
    "Zoe\u0308 [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
)
_COLUMNS = {
    "entities": (object, ""),
    "labels": (object, ""),
    "starts": (np.int32, -1),
    "ends": (np.int32, -1),
    "scores": (np.float32, 0.0),
}


class PlacedText(NamedTuple):
    """`spans` are the characters of its words; `probabilities`, float32 [W,N], those of labels."""

    text: str
    spans: list[tuple[int, int]]
    probabilities: np.ndarray

    def is_certain(self) -> bool:
        *_, second, first = np.sort(np.pad(self.probabilities, [(0, 0), (1, 0)]), axis=1).T
        return (first - second).min(initial=1.0) > _LEAST_LEAD


def samples(
    model: keras.Model, *, tokenizer: TextTokenizer, max_length: int, labels: Sequence[str]
) -> list[Sample]:
    """To both signatures, of short texts and one that has more rows than the graph reads at once,
    but for texts in which a label does not lead."""
    num_sentences = max_length * (1 + WINDOWS_AT_ONCE // 2) // 7
    long = " ".join(f"Bob {number} met Mary {number} in Lyon." for number in range(num_sentences))
    texts = [*_SHORT, long]
    read, inputs, probabilities = placed_texts(
        model, texts, tokenizer=tokenizer, max_length=max_length
    )
    names = np.array([labels] * len(probabilities), object)
    return [
        Sample(
            {"signature": "tensors", "inputs": {n: each.tolist() for n, each in inputs.items()}},
            {
                "probabilities": np.where(inputs["input_mask"][..., None], probabilities, 0),
                "label_names": names,
            },
        ),
        *(
            Sample(
                {"signature": "serving_default", "inputs": {"text": [each.text for each in some]}},
                answers(some, labels=labels),
            )
            for some in ([each for each in read if each.is_certain()], read[:1])
            if some and all(each.is_certain() for each in some)
        ),
    ]


def placed_texts(
    model: keras.Model, texts: Sequence[str], *, tokenizer: TextTokenizer, max_length: int
) -> tuple[list[PlacedText], dict[str, np.ndarray], np.ndarray]:
    """Each read by itself; the inputs of the first rows and their probabilities [B,T,N]."""
    lowercase = tokenizer.lowercase and not tokenizer.vocabulary.rules
    words = [list(google_words(text, lowercase=lowercase)) for text in texts]
    sentences = [Sentence(tuple(each.text for each in some), None, 0, 1) for some in words]
    pieces = word_pieces(sentences, tokenizer)
    rows = rows_around(pieces, own_reach(pieces), limit=max_length - 2)
    no_tags = np.full(pieces.word_bounds[-1], -1, np.int32)
    encoded = TaggedWords(pieces.ids, rows, pieces.word_bounds, no_tags, tokenizer.vocabulary)
    numbers = np.arange(len(encoded))
    batches = [
        encoded.inputs(numbers[at : at + WINDOWS_AT_ONCE])
        for at in range(0, len(numbers), WINDOWS_AT_ONCE)
    ]
    with tf.device("CPU:0"):
        outputs = [softmax(np.asarray(model(inputs, training=False))) for inputs in batches]
    of_words = np.concatenate(
        [row[encoded.columns(n)] for n, row in enumerate(chain.from_iterable(outputs))]
    )
    read = [
        PlacedText(text, [(min(w.places), max(w.places) + 1) for w in some], of_words[begin:end])
        for text, some, (begin, end) in zip(texts, words, pairwise(pieces.word_bounds), strict=True)
    ]
    return read, batches[0], outputs[0]


def answers(read: Sequence[PlacedText], *, labels: Sequence[str]) -> dict[str, np.ndarray]:
    """The outputs of `serving_default`."""
    found = [list(_entities(each, labels)) for each in read]
    shape = len(found), max(map(len, found))
    outputs = {name: np.full(shape, filler, dtype) for name, (dtype, filler) in _COLUMNS.items()}
    for row, of_text in enumerate(found):
        for column, values in enumerate(of_text):
            for array, value in zip(outputs.values(), values, strict=True):
                array[row, column] = value
    return outputs


def _entities(read: PlacedText, labels: Sequence[str]) -> Iterator[tuple]:
    label_ids = read.probabilities.argmax(axis=1)
    tags = [bio_tag(labels[number]) for number in label_ids]
    for first, after, kind in scoring.entities(tags):
        start = read.spans[first][0]
        text = cut(read.text, start, read.spans[after - 1][1])
        score = read.probabilities[first:after].max(axis=1).mean()
        yield text, kind, start, start + len(text), score
