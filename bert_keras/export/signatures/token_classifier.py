"""Signatures of a token classifier, and samples made by the code of training."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.servable import (
    Sample,
    Servable,
    Signature,
    eager_outputs,
    tensor_specs,
    tensors_sample,
    text_specs,
    traced,
)
from bert_keras.export.signatures.exporter import Exporter
from bert_keras.export.text_ops.entities import bio_tag, entities, word_rows
from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.export.text_ops.windows import WINDOWS_AT_ONCE, in_parts
from bert_keras.tasks.ner import scoring
from bert_keras.tasks.ner.encoding import TaggedWords
from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.ner.windows import own_reach, rows_around, word_pieces
from bert_keras.tasks.squad.predictions import cut
from bert_keras.tasks.task import softmax
from bert_keras.text.google_words import google_words
from bert_keras.text.tokenizer import TextTokenizer

# Samples leave out texts in which a label leads by less: rounding may put another first.
_LEAST_LEAD = 1e-4
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


def served_token_labels(
    model: keras.Model,
    reader: TextToInputs,
    tokenizer: TextTokenizer,
    *,
    labels: Sequence[str],
) -> Servable:
    """Serves a model that takes the inputs of a BertTokenClassifier and returns logits [B,T,N] in
    the order of `labels`. White space, punctuation and CJK characters separate words.

    Raises:
        InputError: The numbers of labels and logits differ.
    """
    if len(labels) != model.num_labels:
        raise InputError(f"{len(labels)} labels came with {model.num_labels} logits")
    return Servable(
        signatures(model, reader, labels=labels),
        _samples(model, tokenizer=tokenizer, max_length=reader.max_length, labels=labels),
    )


def signatures(
    model: keras.Model, reader: TextToInputs, *, labels: Sequence[str]
) -> dict[str, Signature]:
    """`serving_default` takes `text`, string [B], and returns `entities` and `labels`, string,
    `starts` and `ends`, int32, and `scores`, float32, all [B,E].

    `tensors` takes `input_ids`, `input_mask`, `segment_ids`, int32 [B,T], and returns
    `probabilities` float32 [B,T,N], in the order of `label_names` string [B,N], and `label_ids`
    int32 [B,T]; both are 0 where there is padding.
    """

    def from_tensors(**inputs):
        is_real_BT1 = tf.cast(inputs["input_mask"] > 0, tf.float32)[..., None]
        probabilities = tf.nn.softmax(model(inputs, training=False)) * is_real_BT1
        return {
            "label_ids": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
            "label_names": tf.tile(
                tf.constant([list(labels)]), tf.stack([tf.shape(probabilities)[0], 1])
            ),
            "probabilities": probabilities,
        }

    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(text):
        pieces = reader.placed_word_pieces(text)
        rows = word_rows(pieces, limit=reader.max_length - 2)
        inputs = reader.packed(rows.texts)

        def most_probable(**inputs):
            found = tensors(**inputs)
            best = tf.reduce_max(found["probabilities"], axis=-1)
            return {
                "label_ids": tf.reshape(found["label_ids"], [-1]),
                "probabilities": tf.reshape(best, [-1]),
            }

        outputs = {
            "label_ids": tf.TensorSpec([None], tf.int32),
            "probabilities": tf.TensorSpec([None], tf.float32),
        }
        found = in_parts(inputs, most_probable, outputs=outputs)
        length = tf.shape(inputs["input_ids"], tf.int64)[1]
        places = rows.rows * length + rows.places + 1  # [CLS]
        return entities(
            tf.gather(found["label_ids"], places),
            tf.gather(found["probabilities"], places),
            pieces=pieces,
            labels=labels,
        )

    return {
        "serving_default": traced(from_text, **text_specs(["text"])),
        "tensors": tensors,
    }


class LabelledText(NamedTuple):
    """A text whose words have probabilities of labels."""

    text: str
    spans: list[tuple[int, int]]  # the characters of each word
    probabilities: np.ndarray  # float32 [W,N]

    def is_certain(self) -> bool:
        """Whether the best label of each word leads clearly."""
        *_, second, first = np.sort(np.pad(self.probabilities, [(0, 0), (1, 0)]), axis=1).T
        return (first - second).min(initial=1.0) > _LEAST_LEAD


def _samples(
    model: keras.Model, *, tokenizer: TextTokenizer, max_length: int, labels: Sequence[str]
) -> list[Sample]:
    """Short texts and one with more rows than the graph reads at once, for both signatures;
    without texts in which a label does not lead."""
    num_sentences = max_length * (1 + WINDOWS_AT_ONCE // 2) // 7
    long = " ".join(f"Bob {number} met Mary {number} in Lyon." for number in range(num_sentences))
    texts = [*_SHORT, long]
    read, inputs, probabilities = _labelled_texts(
        model, texts, tokenizer=tokenizer, max_length=max_length
    )
    names = np.array([labels] * len(probabilities), object)
    outputs = {
        "probabilities": np.where(inputs["input_mask"][..., None], probabilities, 0),
        "label_names": names,
    }
    return [
        tensors_sample(inputs, outputs),
        *(
            Sample(
                {"signature": "serving_default", "inputs": {"text": [each.text for each in some]}},
                _outputs(some, labels=labels),
            )
            for some in ([each for each in read if each.is_certain()], read[:1])
            if some and all(each.is_certain() for each in some)
        ),
    ]


def _labelled_texts(
    model: keras.Model, texts: Sequence[str], *, tokenizer: TextTokenizer, max_length: int
) -> tuple[list[LabelledText], dict[str, np.ndarray], np.ndarray]:
    """Reads each text by itself; also returns the inputs of the first rows and their probabilities
    [B,T,N]."""
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
    outputs = [softmax(eager_outputs(model, inputs)) for inputs in batches]
    of_words = np.concatenate(
        [row[encoded.columns(n)] for n, row in enumerate(chain.from_iterable(outputs))]
    )
    read = [
        LabelledText(text, [(min(w.places), max(w.places) + 1) for w in some], of_words[begin:end])
        for text, some, (begin, end) in zip(texts, words, pairwise(pieces.word_bounds), strict=True)
    ]
    return read, batches[0], outputs[0]


def _outputs(read: Sequence[LabelledText], *, labels: Sequence[str]) -> dict[str, np.ndarray]:
    """The outputs of `serving_default`."""
    found = [list(_entities(each, labels)) for each in read]
    shape = len(found), max(map(len, found))
    outputs = {name: np.full(shape, filler, dtype) for name, (dtype, filler) in _COLUMNS.items()}
    for row, of_text in enumerate(found):
        for column, values in enumerate(of_text):
            for array, value in zip(outputs.values(), values, strict=True):
                array[row, column] = value
    return outputs


def _entities(read: LabelledText, labels: Sequence[str]) -> Iterator[tuple]:
    label_ids = read.probabilities.argmax(axis=1)
    tags = [bio_tag(labels[int(number)]) for number in label_ids]
    for first, after, kind in scoring.entities(tags):
        start = read.spans[first][0]
        text = cut(read.text, start, read.spans[after - 1][1])
        score = read.probabilities[first:after].max(axis=1).mean()
        yield text, kind, start, start + len(text), score


EXPORTER = Exporter(served_token_labels, lambda card, source: {"labels": card.labels})
