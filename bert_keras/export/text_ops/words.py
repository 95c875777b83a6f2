"""Splits raw text into the words of `bert_keras.text`, inside a TF graph.

Everything is done on code points, with the tables of the Python that writes the graph: neither the
Unicode tables nor the locale of a server change a word.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from bert_keras.export.text_ops import unicode_tables as tables
from bert_keras.export.text_ops.flat import RaggedTensor, num_before, previous

_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = map(ord, "Σσς")


class Points(NamedTuple):
    """Code points of B texts, one text after another."""

    points: tf.Tensor  # int32 [N]
    splits: tf.Tensor  # int64 [B+1], where each text begins and the last ends
    properties: tf.Tensor  # int32 [N], bits and combining class
    places: tf.Tensor  # int64 [N], the index of the given point that each comes from

    def are(self, properties: int) -> tf.Tensor:
        """bool [N], which have any of these bits."""
        return self.properties & properties != 0

    def each(self, change: Callable[[tf.Tensor], tf.Tensor]) -> "Points":
        """Applies `change` to points, properties and places."""
        return Points(
            change(self.points), self.splits, change(self.properties), change(self.places)
        )

    def those(self, kept: tf.Tensor) -> "Points":
        """Keeps the points in `kept`, bool [N]."""
        found = self.each(partial(tf.gather, indices=tf.where(kept)[:, 0]))
        return found._replace(splits=tf.gather(num_before(kept), self.splits))

    def words(self, *, is_first: tf.Tensor, is_space: tf.Tensor) -> tf.RaggedTensor:
        """Indices of points, int64 [B,(words),(characters)]; bool [N] say which points begin a word
        and which are in none."""
        places = tf.where(tf.logical_not(is_space))[:, 0]
        starts = tf.where(tf.gather(is_first, places))[:, 0]
        splits = tf.gather(num_before(is_first), self.splits)
        words = RaggedTensor.from_row_starts(places, starts, validate=False)
        return RaggedTensor.from_row_splits(words, splits, validate=False)

    def after_marks(self, ends: tf.Tensor) -> tf.Tensor:
        """As `tasks.squad.answers.cut` has it: marks belong to the character before them."""
        is_firm = tf.logical_not(self.are(tables.ACCENT))
        return tf.gather(tf.where(is_firm)[:, 0], tf.gather(num_before(is_firm), ends))

    def cut(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """string [N] of spans."""
        places = tf.ragged.range(starts, tf.maximum(starts, ends), row_splits_dtype=tf.int64)
        points = places.with_values(tf.gather(self.points, places.values))
        return tf.strings.unicode_encode(points, "UTF-8")

    def in_text(self, places: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """int32 [N]: places among the characters of their text alone."""
        return tf.cast(places - tf.gather(self.splits, texts), tf.int32)


class Words(NamedTuple):
    """Normalised words of B texts.

    `words` int32 [B,(words),(characters)] holds code points. `places`, int64 of the same shape,
    holds the index in `given` of the point that each comes from.
    """

    words: tf.RaggedTensor
    places: tf.RaggedTensor
    given: Points  # all texts with a space after each


class Tokens(NamedTuple):
    """P tokens of B texts, with their positions in the texts."""

    ids: tf.RaggedTensor  # int32 [B,(tokens)]
    starts: tf.Tensor  # int64 [P], the index in `given` of each token's first character
    ends: tf.Tensor  # int64 [P], one more than the index of its last character
    given: Points  # all texts with one more character after each


def words_of(text: tf.Tensor, *, lowercase: bool) -> Words:
    """Splits texts, string [B], into words.

    Bytes that are no UTF-8 are dropped. All steps stay on the processor, where strings are.
    """
    with tf.device("CPU:0"):
        given = given_points(text)
        if lowercase:
            small = respelled(_with_small_sigmas(given), tables.small_decomposed())
            read = _without(tables.ACCENT, _in_order(small))
        else:
            read = _without(tables.DROPPED, given)
        is_space = read.are(tables.SPACE)
        is_within = tf.logical_not(read.are(tables.SPACE | tables.ALONE))
        continues = is_within & previous(is_within, 1)
        characters = read.words(is_first=tf.logical_not(is_space | continues), is_space=is_space)
        words, places = (
            characters.with_flat_values(tf.gather(each, characters.flat_values))
            for each in (read.points, read.places)
        )
        return Words(words, places, given)


def given_points(text: tf.Tensor) -> Points:
    """Code points with a space after each text, which keeps words, marks and sigmas of two texts
    apart."""
    given = tf.strings.unicode_decode(text + " ", "UTF-8", errors="ignore")
    return points_of(given.values, given.row_splits)


def points_of(points: tf.Tensor, splits: tf.Tensor) -> Points:
    """Points as they are given, int32 [N], with `splits` int64 [B+1]."""
    return Points(points, splits, properties_of(points), tf.range(tf.size(points, tf.int64)))


def properties_of(points: tf.Tensor) -> tf.Tensor:
    """int32 [N], bits and combining class."""
    return looked_up(tables.properties(), points)


def looked_up(table: tables.Table, points: tf.Tensor) -> tf.Tensor:
    """int32 [N], the number that `table` has for each point."""
    starts = tf.gather(table.starts, tf.bitwise.right_shift(points, tables.BLOCK_BITS))
    return tf.gather(table.numbers, starts + (points & tables.BLOCK - 1))


def utf8_widths(points: tf.Tensor) -> tf.Tensor:
    """int64 [N], how many bytes each has."""
    return tf.add_n([tf.cast(points >= p, tf.int64) for p in (0, 0x80, 0x800, 0x10000)])


def _without(properties: int, read: Points) -> Points:
    return read.those(tf.logical_not(read.are(properties)))


def _with_small_sigmas(read: Points) -> Points:
    """A sigma is final after a letter and not before one, ignorable characters aside."""
    is_firm = tf.logical_not(read.are(tables.IGNORABLE))
    are_letters = tf.pad(tf.boolean_mask(read.are(tables.CASED), is_firm), [[1, 1]])
    place = num_before(is_firm)
    follows, precedes = tf.gather(are_letters, place[:-1]), tf.gather(are_letters, place[1:] + 1)
    is_final = follows & tf.logical_not(precedes)
    small = tf.where(is_final, _FINAL_SIGMA, _SMALL_SIGMA)
    return read._replace(points=tf.where(read.points == _CAPITAL_SIGMA, small, read.points))


def respelled(read: Points, spellings: tables.Spellings) -> Points:
    """Replaces each point by one, several or none. Points that stay are taken from the text, which
    is appended to the spellings."""
    number = looked_up(spellings.numbers, read.points)
    starts = tf.constant(spellings.starts)
    from_text = len(spellings.points) + tf.range(tf.size(number))
    first = tf.where(number == 0, from_text, tf.gather(starts, number))
    length = tf.gather(starts[1:] - starts[:-1], number)
    places = tf.ragged.range(first, first + length, row_splits_dtype=tf.int64)
    points = tf.gather(tf.concat([spellings.points, read.points], axis=0), places.values)
    splits = tf.gather(places.row_splits, read.splits)
    sources = tf.gather(read.places, places.value_rowids())
    return Points(points, splits, properties_of(points), sources)


def _in_order(read: Points) -> Points:
    """Marks between two other characters by their class, as NFD has them."""
    classes = tf.cast(read.properties & tables.COMBINING_CLASS, tf.int64)
    places = tf.where(classes > 0)
    keys = tf.gather_nd(num_before(classes == 0), places) * (tables.COMBINING_CLASS + 1)
    order = tf.argsort(keys + tf.gather_nd(classes, places), stable=True)
    sources = tf.gather(places, order)
    return read.each(
        lambda each: tf.tensor_scatter_nd_update(each, places, tf.gather_nd(each, sources))
    )
