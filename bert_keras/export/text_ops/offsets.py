"""Offsets of tokens in their text, inside a TF graph.

A place counts Unicode code points, as Python's `str` does, of what is UTF-8 in a text.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_keras.export.text_ops.flat import ragged_by_splits, ragged_by_starts
from bert_keras.export.text_ops.words import PlacedWords, Points, utf8_widths


class PlacedPieces(NamedTuple):
    """P pieces of B texts: `ids`, int32 [B,(pieces)]; `starts` and `ends`, int64 [P], are their
    spans in `given`, the characters of all texts with one more after each."""

    ids: tf.RaggedTensor
    starts: tf.Tensor
    ends: tf.Tensor
    given: Points


class PlacedWordPieces(NamedTuple):
    """Pieces of the W words of B texts: `ids`, int32 [B,(pieces)]; `firsts`, int64 [W], the first
    piece of each word; `splits`, int64 [B+1], the first word of each text, and W. `starts` and
    `ends`, int64 [W], are the words' spans in `given`, as above."""

    ids: tf.RaggedTensor
    firsts: tf.Tensor
    splits: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    given: Points


def placed_pieces(
    placed: PlacedWords, pieces: tf.RaggedTensor, byte_starts: tf.RaggedTensor
) -> PlacedPieces:
    """`pieces` and `byte_starts` [W,(pieces)] are those of a wordpiece tokenizer. The pieces of a
    word share its characters among them; an [UNK] has them all."""
    with tf.device("CPU:0"):
        words = placed.words.values
        bytes_before = tf.pad(tf.cumsum(utf8_widths(words.values)), [[1, 0]])
        word_bytes = tf.gather(bytes_before, words.row_starts())
        piece_bytes = tf.gather(word_bytes, pieces.value_rowids()) + byte_starts.values
        characters = ragged_by_starts(
            placed.places.flat_values, _places_in(bytes_before, piece_bytes)
        )
        ids = _of_texts(pieces, placed)
        return PlacedPieces(ids, *_spans(characters), placed.given)


def placed_word_pieces(placed: PlacedWords, pieces: tf.RaggedTensor) -> PlacedWordPieces:
    """`pieces` [W,(pieces)], at least one for each word."""
    with tf.device("CPU:0"):
        return PlacedWordPieces(
            _of_texts(pieces, placed),
            pieces.row_starts(),
            placed.words.row_splits,
            *_spans(placed.places.values),
            placed.given,
        )


def _of_texts(pieces: tf.RaggedTensor, placed: PlacedWords) -> tf.RaggedTensor:
    splits = tf.gather(pieces.row_splits, placed.words.row_splits)
    return ragged_by_splits(pieces.values, splits)


def _spans(places: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """int64 [N,(places)] to the first of each and the one after the last, int64 [N]."""
    values, owners = places.values, places.value_rowids()
    return tf.math.segment_min(values, owners), tf.math.segment_max(values, owners) + 1


def _places_in(ascending: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """int64 [N] of the values, all of which are there; `tf.searchsorted` refuses none at all."""
    return tf.raw_ops.LowerBound(
        sorted_inputs=ascending[None], values=values[None], out_type=tf.int64
    )[0]
