"""Builds the SavedModel signatures and samples of a token classifier."""

from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_keras.config import ModelMetadata
from bert_keras.downstream.ner.tags import entities as tagged_entities
from bert_keras.downstream.ner.words import TaggedWords, sentence_rows, units_of
from bert_keras.downstream.squad.answers import cut
from bert_keras.downstream.task import softmax
from bert_keras.errors import InputError
from bert_keras.exporting.servable import (
    Sample,
    ServableModel,
    eager_outputs,
    tensor_specs,
    text_specs,
    traced,
)
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.text_ops.entities import bio_tag, entities, word_rows
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.text_ops.windows import WINDOWS_AT_ONCE, in_batches
from bert_keras.exporting.verify import to_arrays
from bert_keras.text.tokenizer import TextTokenizer

# Samples omit texts in which the two highest probabilities of a word differ by less than this,
# because rounding in the graph could change the label.
_MIN_DIFFERENCE = 1e-4
_SHORT_TEXTS = (
    "Anna Lee flew from Lyon to Tokyo.",
    "",
    "Zoe\u0308 [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
)
_COLUMNS = {  # outputs of `serving_default`: dtype and padding value
    "entities": (tf.string, ""),
    "labels": (tf.string, ""),
    "starts": (tf.int32, -1),
    "ends": (tf.int32, -1),
    "scores": (tf.float32, 0.0),
}


def served_token_labels(
    model: keras.Model,
    reader: TextToInputs,
    tokenizer: TextTokenizer,
    *,
    labels: Sequence[str],
    unit: str = "word",
) -> ServableModel:
    """Builds the signatures of a token classifier.

    `serving_default` takes `text`, string [B], and returns the entities of each text: `entities`
    and `labels`, string [B,E]; `starts` and `ends`, int32 [B,E], in characters of the text;
    `scores`, float32 [B,E].

    `tensors` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. It returns
    `probabilities`, float32 [B,T,N], in the order of `label_names`, string [B,N], and `label_ids`,
    int32 [B,T]. `probabilities` and `label_ids` are 0 at padding.

    Args:
        model: Takes the inputs of a BertTokenClassifier and returns logits, float32 [B,T,N].
        reader: Converts texts to the model's inputs inside the graph.
        tokenizer: The same tokenizer outside the graph, which computes the samples.
        labels: The N labels in the order of the logits.
        unit: The part of a text that gets a label at its first token; see
            `downstream.ner.words.units_of`.

    Returns:
        The signatures and samples.

    Raises:
        InputError: The numbers of labels and logits differ.
    """
    if len(labels) != model.num_labels:
        raise InputError(f"there are {len(labels)} labels for {model.num_labels} logits")

    def from_tensors(**inputs):
        is_real_BT1 = tf.expand_dims(tf.cast(inputs["input_mask"] > 0, tf.float32), axis=2)
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
        tokens = reader.unit_tokens(text, unit=unit)
        rows = word_rows(tokens, limit=reader.max_length - 2)
        inputs = reader.packed(rows.texts)

        def most_probable(**inputs):
            outputs = tensors(**inputs)
            best = tf.reduce_max(outputs["probabilities"], axis=-1)
            return {
                "label_ids": tf.reshape(outputs["label_ids"], [-1]),
                "probabilities": tf.reshape(best, [-1]),
            }

        predictions = in_batches(inputs, most_probable)
        length = tf.shape(inputs["input_ids"], tf.int64)[1]
        positions = rows.rows * length + rows.positions + 1  # [CLS]
        return entities(
            tf.gather(predictions["label_ids"], positions),
            tf.gather(predictions["probabilities"], positions),
            tokens=tokens,
            labels=labels,
        )

    return ServableModel(
        {"serving_default": traced(from_text, **text_specs(["text"])), "tensors": tensors},
        _samples(model, reader, tokenizer, labels=labels, unit=unit),
    )


def _samples(
    model: keras.Model,
    reader: TextToInputs,
    tokenizer: TextTokenizer,
    *,
    labels: Sequence[str],
    unit: str,
) -> list[Sample]:
    """Returns samples for both signatures.

    They have short texts and one text with more rows than the graph evaluates at once. The sample
    of `serving_default` omits texts for which `_is_certain` is False.
    """
    num_sentences = reader.max_length * (1 + WINDOWS_AT_ONCE // 2) // 7
    long = " ".join(f"Bob {number} met Mary {number} in Lyon." for number in range(num_sentences))
    texts = [*_SHORT_TEXTS, long]
    tokens, spans = units_of(texts, tokenizer, unit=unit)
    rows = sentence_rows(tokens, limit=reader.max_length - 2)
    no_labels = np.full(len(spans), -1, np.int32)
    encoded = TaggedWords(tokens, rows, no_labels, tokenizer.vocabulary)
    inputs, *_ = encoded.batch(np.arange(len(encoded)))
    probabilities_BTN = softmax(eager_outputs(model, inputs))
    of_words = [row[encoded.columns(n)] for n, row in enumerate(probabilities_BTN)]
    of_texts, spans_of_texts = (
        np.split(units, tokens.word_bounds[1:-1]) for units in (np.concatenate(of_words), spans)
    )
    columns = zip(texts, spans_of_texts, of_texts, strict=True)
    certain = [each for each in columns if _is_certain(each[2])]
    entities_of_texts = [list(_entities(*each, labels=labels)) for each in certain]
    outputs = {
        name: tf.ragged.constant(
            [[entity[column] for entity in row] for row in entities_of_texts],
            dtype,
            ragged_rank=1,
        ).to_tensor(filler)
        for column, (name, (dtype, filler)) in enumerate(_COLUMNS.items())
    }
    outputs_of_tensors = {
        "probabilities": np.where(inputs["input_mask"][..., None], probabilities_BTN, 0),
        "label_names": np.array([labels] * len(probabilities_BTN), object),
    }
    inputs_of_texts = {"text": [text for text, _, _ in certain]}
    return [
        Sample({"signature": "serving_default", "inputs": inputs_of_texts}, to_arrays(outputs)),
        Sample({"signature": "tensors", "inputs": inputs}, outputs_of_tensors),
    ]


def _is_certain(probabilities_WN: np.ndarray) -> bool:
    """Returns whether each word's two highest probabilities differ by more than _MIN_DIFFERENCE."""
    *_, second, first = np.sort(np.pad(probabilities_WN, [(0, 0), (1, 0)]), axis=1).T
    return (first - second).min(initial=1.0) > _MIN_DIFFERENCE


def _entities(
    text: str, spans_W2: np.ndarray, probabilities_WN: np.ndarray, *, labels: Sequence[str]
) -> Iterator[tuple]:
    """Yields the entities of a text, each as a tuple with one value for each of `_COLUMNS`."""
    tags = [bio_tag(labels[int(label_id)]) for label_id in probabilities_WN.argmax(axis=1)]
    for first, after, kind in tagged_entities(tags):
        start = int(spans_W2[first, 0])
        entity = cut(text, start, int(spans_W2[after - 1, 1]))
        score = probabilities_WN[first:after].max(axis=1).mean()
        yield entity, kind, start, start + len(entity), score


def _settings(metadata: ModelMetadata, source: str) -> dict:
    return {"labels": metadata.labels, "unit": metadata.task.get("unit", "word")}


EXPORTER = Exporter(served_token_labels, _settings)
