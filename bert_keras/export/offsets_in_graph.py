"""Words whose characters know their places come in; spans of the given text go out, in a TF graph.

A place counts Unicode code points, as Python's `str` does, of what is UTF-8 in a text.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_keras.export import unicode_tables as tables
from bert_keras.export.words_in_graph import PlacedWords, Points, num_before


class PlacedPieces(NamedTuple):
    """P pieces of W words of B texts.

    `ids`, int32 [B,(pieces)]. `starts` and `ends`, int64 [P], are their spans in `given`, the
    characters of all texts with a space behind each. `words`, int64 [W+1], are the first piece of
    each word, and P; `word_splits`, int64 [B+1], the first word of each text, and W.
    """

    ids: tf.RaggedTensor
    starts: tf.Tensor
    ends: tf.Tensor
    words: tf.Tensor
    word_splits: tf.Tensor
    given: Points

    def behind_marks(self, ends: tf.Tensor) -> tf.Tensor:
        """As `tasks.squad.answers.cut` has it: marks belong to the character before them."""
        is_firm = ~self.given.are(tables.ACCENT)
        return tf.gather(tf.where(is_firm)[:, 0], tf.gather(num_before(is_firm), ends))

    def cut(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """string [N] of spans."""
        places = tf.ragged.range(starts, tf.maximum(starts, ends), row_splits_dtype=tf.int64)
        points = places.with_values(tf.gather(self.given.points, places.values))
        return tf.strings.unicode_encode(points, "UTF-8")

    def in_text(self, places: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """int32 [N]: places among the characters of their text alone."""
        return tf.cast(places - tf.gather(self.given.splits, texts), tf.int32)


def placed_pieces(
    placed: PlacedWords, pieces: tf.RaggedTensor, byte_starts: tf.RaggedTensor
) -> PlacedPieces:
    """`pieces` and `byte_starts` [W,(pieces)] are those of a wordpiece tokenizer. The pieces of a
    word share its characters among them; an [UNK] has them all."""
    with tf.device("CPU:0"):
        words = placed.words.values
        widths = tf.add_n([tf.cast(words.values >= p, tf.int64) for p in (0, 0x80, 0x800, 0x10000)])
        bytes_before = tf.pad(tf.cumsum(widths), [[1, 0]])
        word_bytes = tf.gather(bytes_before, words.row_starts())
        piece_bytes = tf.gather(word_bytes, pieces.value_rowids()) + byte_starts.values
        characters = tf.RaggedTensor.from_row_starts(
            placed.places.flat_values,
            _places_in(bytes_before, piece_bytes),
            validate=False,
        )
        owners = characters.value_rowids()
        word_splits = placed.words.row_splits
        ids = tf.RaggedTensor.from_row_splits(
            pieces.values, tf.gather(pieces.row_splits, word_splits), validate=False
        )
        return PlacedPieces(
            ids,
            tf.math.segment_min(characters.values, owners),
            tf.math.segment_max(characters.values, owners) + 1,
            pieces.row_splits,
            word_splits,
            placed.given,
        )


def _places_in(ascending: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """int64 [N] of the values, all of which are there; `tf.searchsorted` refuses none at all."""
    return tf.raw_ops.LowerBound(
        sorted_inputs=ascending[None], values=values[None], out_type=tf.int64
    )[0]
