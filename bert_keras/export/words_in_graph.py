"""Raw text comes in; the words that `bert_keras.text` sees go out, inside a TF graph.

Everything is done on code points, with the tables of the Python that writes the graph: neither the
Unicode tables nor the locale of a server change a word.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_keras.export import unicode_tables as tables

_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = map(ord, "Σσς")


class _Points(NamedTuple):
    """Code points of all texts, int32 [N]; where each text begins and the last ends, int64 [B+1]"""

    points: tf.Tensor
    splits: tf.Tensor
    properties: tf.Tensor  # int32 [N]

    def are(self, properties: int) -> tf.Tensor:
        return self.properties & properties != 0


def words_of(text: tf.Tensor, *, lowercase: bool) -> tf.RaggedTensor:
    """string [B] to code points of normalised words, int32 [B,(words),(characters)].

    Bytes that are no UTF-8 are dropped. All steps stay on the processor, where strings are.
    """
    with tf.device("CPU:0"):
        # A space behind each text keeps words, marks and sigmas of one text from those of the next.
        given = tf.strings.unicode_decode(text + " ", "UTF-8", errors="ignore")
        read = _with_properties(given.values, given.row_splits)
        if lowercase:
            read = _without(tables.ACCENT, _in_order(_small_decomposed(_with_small_sigmas(read))))
        else:
            read = _without(tables.DROPPED, read)
        return _split(read)


def _with_properties(points: tf.Tensor, splits: tf.Tensor) -> _Points:
    return _Points(points, splits, _looked_up(tables.properties(), points))


def _looked_up(table: tables.Table, points: tf.Tensor) -> tf.Tensor:
    starts = tf.gather(table.starts, tf.bitwise.right_shift(points, tables.BLOCK_BITS))
    return tf.gather(table.numbers, starts + (points & tables.BLOCK - 1))


def _num_before(chosen: tf.Tensor) -> tf.Tensor:
    """bool [N] to how many are chosen before each place and before the end, int64 [N+1]."""
    return tf.pad(tf.cumsum(tf.cast(chosen, tf.int64)), [[1, 0]])


def _without(properties: int, read: _Points) -> _Points:
    kept = ~read.are(properties)
    places = tf.where(kept)[:, 0]
    return _Points(
        tf.gather(read.points, places),
        tf.gather(_num_before(kept), read.splits),
        tf.gather(read.properties, places),
    )


def _with_small_sigmas(read: _Points) -> _Points:
    """Final is one behind a letter and not before one, whatever ignorable there is between."""
    is_firm = ~read.are(tables.IGNORABLE)
    are_letters = tf.pad(tf.boolean_mask(read.are(tables.CASED), is_firm), [[1, 1]])
    place = _num_before(is_firm)
    is_final = tf.gather(are_letters, place[:-1]) & ~tf.gather(are_letters, place[1:] + 1)
    small = tf.where(is_final, _FINAL_SIGMA, _SMALL_SIGMA)
    return read._replace(points=tf.where(read.points == _CAPITAL_SIGMA, small, read.points))


def _small_decomposed(read: _Points) -> _Points:
    """Those that are spelled as themselves are taken from the text, which is put behind the rest"""
    spellings = tables.small_decomposed()
    number = _looked_up(spellings.numbers, read.points)
    starts = tf.constant(spellings.starts)
    from_text = len(spellings.points) + tf.range(tf.size(number))
    first = tf.where(number == 0, from_text, tf.gather(starts, number))
    length = tf.gather(starts[1:] - starts[:-1], number)
    places = tf.ragged.range(first, first + length, row_splits_dtype=tf.int64)
    points = tf.gather(tf.concat([spellings.points, read.points], axis=0), places.values)
    return _with_properties(points, tf.gather(places.row_splits, read.splits))


def _in_order(read: _Points) -> _Points:
    """Marks between two other characters by their class, as NFD has them."""
    classes = tf.cast(read.properties & tables.COMBINING_CLASS, tf.int64)
    places = tf.where(classes > 0)
    keys = tf.gather_nd(_num_before(classes == 0), places) * (tables.COMBINING_CLASS + 1)
    order = tf.argsort(keys + tf.gather_nd(classes, places), stable=True)
    sources = tf.gather(places, order)
    points, properties = (
        tf.tensor_scatter_nd_update(each, places, tf.gather_nd(each, sources))
        for each in (read.points, read.properties)
    )
    return _Points(points, read.splits, properties)


def _split(read: _Points) -> tf.RaggedTensor:
    is_space, is_within = read.are(tables.SPACE), ~read.are(tables.SPACE | tables.ALONE)
    is_first = ~(is_space | is_within & tf.pad(is_within, [[1, 0]])[:-1])
    places = tf.where(~is_space)[:, 0]
    words = tf.RaggedTensor.from_row_starts(
        tf.gather(read.points, places),
        tf.where(tf.gather(is_first, places))[:, 0],
        validate=False,
    )
    splits = tf.gather(_num_before(is_first), read.splits)
    return tf.RaggedTensor.from_row_splits(words, splits, validate=False)
