"""Converts the labels of words into entities, spans of the text, inside a TF graph."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_keras.export.text_ops.flat import RaggedTensor, num_before, previous
from bert_keras.export.text_ops.text_to_inputs import WordTokens
from bert_keras.export.text_ops.windows import Texts
from bert_keras.tasks.ner.files import OUTSIDE

_TAG = re.compile(rf"{OUTSIDE}|[BI]-.+")


class WordRows(NamedTuple):
    """R rows of tokens, and the position at which each of W words is labelled."""

    texts: Texts  # the R rows, without special tokens
    rows: tf.Tensor  # int64 [W], the row that predicts the label of each word
    places: tf.Tensor  # int64 [W], the position of the word's first token in that row


def word_rows(pieces: WordTokens, *, limit: int) -> WordRows:
    """Divides each text into rows of at most `limit` tokens.

    Same as `tasks.ner.windows.rows_around` without `documents`, but keeps rows that label no word.
    """
    begins, lengths = pieces.ids.row_starts(), pieces.ids.row_lengths()
    stride = max(limit // 2, 1)
    numbers = tf.ragged.range(1 - (tf.minimum(limit - lengths, 0) // stride))
    owners, number = numbers.value_rowids(), numbers.values
    begin = tf.gather(begins, owners)
    length = tf.minimum(tf.gather(lengths, owners), limit)
    start = tf.minimum(begin + number * stride, tf.gather(begins + lengths, owners) - length)
    between = (tf.roll(start, 1, axis=0) + start + limit - 1) // 2 + 1
    owned_from = tf.where(number == 0, begin, between)
    rows = tf.raw_ops.UpperBound(
        sorted_inputs=owned_from[None], values=pieces.firsts[None], out_type=tf.int64
    )[0]
    rows -= 1
    texts = Texts(pieces.ids.values, [start], [length])
    return WordRows(texts, rows, pieces.firsts - tf.gather(start, rows))


def bio_tag(label: str) -> str:
    """Returns `label` as a BIO tag; a label that is not one gets the prefix I-.

    Adjacent words with such a label therefore form one entity.
    """
    return label if _TAG.fullmatch(label) else f"I-{label}"


def entities(
    label_ids: tf.Tensor,
    probabilities: tf.Tensor,
    *,
    pieces: WordTokens,
    labels: Sequence[str],
) -> dict[str, tf.Tensor]:
    """Returns the entities of B texts, at most E for each text.

    The rules that group words into entities are those of `tasks.ner.scoring.entities`, applied to
    the `bio_tag` of each label.

    Args:
        label_ids: int32 [W], the index of each word's label in `labels`.
        probabilities: float32 [W], the probability of that label.
        pieces: The tokens and offsets of the words.
        labels: All labels in the order of the model's logits.

    Returns:
        `entities` and `labels`, string [B,E], padded with ""; `starts` and `ends`, int32 [B,E], in
        characters of the text, padded with -1; `scores`, float32 [B,E], the mean probability of an
        entity's words, padded with 0.
    """
    prefixes, _, kinds = zip(*(bio_tag(label).partition("-") for label in labels), strict=True)
    names = ["", *dict.fromkeys(kind for kind in kinds if kind)]
    kind = tf.gather([names.index(each) for each in kinds], label_ids)
    goes_on = tf.gather([prefix == "I" for prefix in prefixes], label_ids)
    texts = RaggedTensor.from_row_splits(label_ids, pieces.splits, validate=False).value_rowids()
    goes_on &= (kind == previous(kind, 1)) & (texts == previous(texts, 1, filler=-1))
    is_entity = kind > 0
    is_first = is_entity & tf.logical_not(goes_on)
    words = tf.where(is_entity)[:, 0]
    numbers = tf.gather(num_before(is_first)[1:], words) - 1
    first, last = tf.where(is_first)[:, 0], tf.math.segment_max(words, numbers)
    start = tf.gather(pieces.starts, first)
    end = pieces.given.after_marks(tf.gather(pieces.ends, last))
    owners = tf.gather(texts, first)
    splits = tf.gather(num_before(is_first), pieces.splits)

    def padded(values: tf.Tensor, filler) -> tf.Tensor:
        return RaggedTensor.from_row_splits(values, splits, validate=False).to_tensor(filler)

    return {
        "entities": padded(pieces.given.cut(start, end), ""),
        "labels": padded(tf.gather(names, tf.gather(kind, first)), ""),
        "starts": padded(pieces.given.in_text(start, owners), -1),
        "ends": padded(pieces.given.in_text(end, owners), -1),
        "scores": padded(tf.math.segment_mean(tf.gather(probabilities, words), numbers), 0.0),
    }
