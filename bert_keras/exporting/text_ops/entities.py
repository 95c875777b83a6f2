"""Converts the labels of words into entities, spans of the text, inside a TF graph."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_keras.downstream.ner.tags import OUTSIDE
from bert_keras.exporting.text_ops.flat import RaggedTensor, num_before, previous
from bert_keras.exporting.text_ops.text_to_inputs import WordTokens
from bert_keras.exporting.text_ops.windows import TextRows

_TAG = re.compile(rf"{OUTSIDE}|[BI]-.+")


class WordRows(NamedTuple):
    """R rows of tokens, and the position at which each of W words is labelled."""

    texts: TextRows  # the R rows, without special tokens
    rows: tf.Tensor  # int64 [W], the row that predicts the label of each word
    positions: tf.Tensor  # int64 [W], the position of the word's first token in that row


def word_rows(tokens: WordTokens, *, limit: int) -> WordRows:
    """Divides each text into rows of at most `limit` tokens.

    Same as `downstream.ner.words.sentence_rows` without `documents`, but rows that label no word
    stay.
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
    return WordRows(texts, rows, tokens.first_tokens - tf.gather(start, rows))


def bio_tag(label: str) -> str:
    """Returns `label` as a BIO tag; a label that is not one gets the prefix I-.

    Adjacent words with such a label therefore form one entity.
    """
    return label if _TAG.fullmatch(label) else f"I-{label}"


def entities(
    label_ids: tf.Tensor,
    probabilities: tf.Tensor,
    *,
    tokens: WordTokens,
    labels: Sequence[str],
) -> dict[str, tf.Tensor]:
    """Returns the entities of B texts, at most E for each text.

    The rules that group words into entities are those of `downstream.ner.tags.entities`, applied
    to the `bio_tag` of each label.

    Args:
        label_ids: int32 [W], the index of each word's label in `labels`.
        probabilities: float32 [W], the probability of that label.
        tokens: The tokens and offsets of the words.
        labels: All labels in the order of the model's logits.

    Returns:
        `entities` and `labels`, string [B,E], padded with ""; `starts` and `ends`, int32 [B,E], in
        characters of the text, padded with -1; `scores`, float32 [B,E], the mean probability of an
        entity's words, padded with 0.
    """
    prefixes, _, kinds = zip(*(bio_tag(label).partition("-") for label in labels), strict=True)
    names = ["", *dict.fromkeys(kind for kind in kinds if kind)]
    kind = tf.gather([names.index(each) for each in kinds], label_ids)
    continues = tf.gather([prefix == "I" for prefix in prefixes], label_ids)
    texts = RaggedTensor.from_row_splits(label_ids, tokens.splits, validate=False).value_rowids()
    continues &= (kind == previous(kind, 1)) & (texts == previous(texts, 1, filler=-1))
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
        "entities": padded(tokens.source.cut(start, end), ""),
        "labels": padded(tf.gather(names, tf.gather(kind, first)), ""),
        "starts": padded(tokens.source.in_text(start, text_ids), -1),
        "ends": padded(tokens.source.in_text(end, text_ids), -1),
        "scores": padded(tf.math.segment_mean(tf.gather(probabilities, words), entity_ids), 0.0),
    }
