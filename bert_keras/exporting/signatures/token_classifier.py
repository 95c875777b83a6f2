"""Builds the SavedModel signatures of a token classifier; kinds/words.py in a graph."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_keras.exporting.servable import Exporter, ServableModel, tensor_specs, text_specs, traced
from bert_keras.exporting.text_ops import text_to_inputs
from bert_keras.exporting.text_ops.text_to_inputs import TextRows, TextToInputs, UnitTokens
from bert_keras.exporting.text_ops.words import RaggedTensor, num_before, previous
from bert_keras.kinds.words import bio_tags


def served_token_labels(
    model: keras.Model, reader: TextToInputs, *, labels: Sequence[str], unit: str = "word"
) -> ServableModel:
    """Builds the signatures of a token classifier.

    `serving_default` takes `text`, string [B], and returns the `entities` of each text and their
    `labels`, string [B,E]; `starts` and `ends` in the text, int32 [B,E]; `scores`, float32 [B,E].

    `tensors` takes `input_ids`, `input_mask` and `segment_ids`, int32 [B,T]. It returns
    `probabilities`, float32 [B,T,N], in the order of `label_names`, string [B,N], and `label_ids`,
    int32 [B,T]; both are 0 at padding.

    Args:
        model: A BertTokenClassifier with N outputs.
        labels: The names of the N outputs, such as B-PER.
        unit: The part of a text that has a label; see `kinds.words.tokenize_units`.
    """

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
        texts, rows, positions = word_rows(tokens, limit=reader.max_length - 2)
        inputs = reader.packed(texts)

        def most_probable(**inputs):
            outputs = tensors(**inputs)
            outputs["probabilities"] = tf.reduce_max(outputs["probabilities"], axis=-1)
            names = ("label_ids", "probabilities")
            return {name: tf.reshape(outputs[name], [-1]) for name in names}

        predictions = text_to_inputs.in_batches(inputs, most_probable)
        length = tf.shape(inputs["input_ids"], tf.int64)[1]
        positions += rows * length + 1  # [CLS]
        return _entities(
            tf.gather(predictions["label_ids"], positions),
            tf.gather(predictions["probabilities"], positions),
            tokens=tokens,
            labels=labels,
        )

    signatures = {"serving_default": traced(from_text, **text_specs(["text"])), "tensors": tensors}
    return ServableModel(signatures, from_tensors)


def word_rows(tokens: UnitTokens, *, limit: int) -> tuple[TextRows, tf.Tensor, tf.Tensor]:
    """Divides texts as `kinds.words.make_rows` does, but keeps rows that label no word.

    Returns the rows without special tokens; the row that predicts the label of each word, int64
    [W]; and the position of the word's first token in this row, int64 [W].
    """
    text_starts, text_lengths = tokens.ids.row_starts(), tokens.ids.row_lengths()
    stride = max(limit // 2, 1)
    indices = tf.ragged.range(1 - (tf.minimum(limit - text_lengths, 0) // stride))
    text_ids, index = indices.value_rowids(), indices.values
    text_start, text_length = tf.gather(text_starts, text_ids), tf.gather(text_lengths, text_ids)
    length = tf.minimum(text_length, limit)
    start = tf.minimum(text_start + index * stride, text_start + text_length - length)
    middle = (tf.roll(start, 1, axis=0) + start + limit - 1) // 2 + 1
    first_labelled = tf.where(index == 0, text_start, middle)
    num_rows = tf.raw_ops.UpperBound(
        sorted_inputs=first_labelled[None], values=tokens.first_tokens[None], out_type=tf.int64
    )
    rows = num_rows[0] - 1
    texts = TextRows(tokens.ids.values, [start], [length])
    return texts, rows, tokens.first_tokens - tf.gather(start, rows)


def _entities(
    label_ids: tf.Tensor, probabilities: tf.Tensor, *, tokens: UnitTokens, labels: Sequence[str]
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `serving_default` from the labels and probabilities of words [W]."""
    prefixes, _, kinds = zip(*(tag.partition("-") for tag in bio_tags(labels)), strict=True)
    names = ["", *dict.fromkeys(kind for kind in kinds if kind)]
    kind = tf.gather([names.index(each) for each in kinds], label_ids)
    continues = tf.gather([prefix == "I" for prefix in prefixes], label_ids)
    texts = RaggedTensor.from_row_splits(label_ids, tokens.splits, validate=False).value_rowids()
    continues &= (kind == previous(kind)) & (texts == previous(texts, filler=-1))
    is_entity = kind > 0
    is_first = is_entity & tf.logical_not(continues)
    words = tf.where(is_entity)[:, 0]
    entity_ids = tf.gather(num_before(is_first)[1:], words) - 1
    first, last = tf.where(is_first)[:, 0], tf.math.segment_max(words, entity_ids)
    start = tf.gather(tokens.starts, first)
    end = tokens.source.after_marks(tf.gather(tokens.ends, last))
    text_ids = tf.gather(texts, first)
    splits = tf.gather(num_before(is_first), tokens.splits)

    def padded(values: tf.Tensor, filler) -> tf.Tensor:
        return RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor(filler)

    return {
        "entities": padded(tokens.source.span_texts(start, end), ""),
        "labels": padded(tf.gather(names, tf.gather(kind, first)), ""),
        "starts": padded(tokens.source.in_text(start, text_ids), -1),
        "ends": padded(tokens.source.in_text(end, text_ids), -1),
        "scores": padded(tf.math.segment_mean(tf.gather(probabilities, words), entity_ids), 0.0),
    }


EXPORTER = Exporter(
    served_token_labels,
    lambda metadata: {"labels": metadata.labels, "unit": metadata.task.get("unit", "word")},
)
