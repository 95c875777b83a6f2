"""Splits raw text into the same words as `bert_keras.text`, inside a TF graph.

All ops work on code points and use the Unicode tables of the Python that writes the graph. The
result therefore does not depend on the Unicode tables or the locale of a server.
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
    splits: tf.Tensor  # int64 [B+1], the index of each text's first code point, then N
    properties: tf.Tensor  # int32 [N], property bits and combining class (unicode_tables.py)
    places: tf.Tensor  # int64 [N], the index in the given text of the source of each code point

    def are(self, properties: int) -> tf.Tensor:
        """Returns whether each code point has any of these property bits, bool [N]."""
        return self.properties & properties != 0

    def each(self, change: Callable[[tf.Tensor], tf.Tensor]) -> "Points":
        """Applies `change` to `points`, `properties` and `places`, but not to `splits`."""
        return Points(
            change(self.points), self.splits, change(self.properties), change(self.places)
        )

    def those(self, kept: tf.Tensor) -> "Points":
        """Keeps the code points where `kept`, bool [N], is True."""
        found = self.each(partial(tf.gather, indices=tf.where(kept)[:, 0]))
        return found._replace(splits=tf.gather(num_before(kept), self.splits))

    def words(self, *, is_first: tf.Tensor, is_space: tf.Tensor) -> tf.RaggedTensor:
        """Groups code points into words.

        Args:
            is_first: bool [N], whether a code point begins a word.
            is_space: bool [N], whether a code point belongs to no word.

        Returns:
            The indices of the code points, int64 [B,(words),(characters)].
        """
        places = tf.where(tf.logical_not(is_space))[:, 0]
        starts = tf.where(tf.gather(is_first, places))[:, 0]
        splits = tf.gather(num_before(is_first), self.splits)
        words = RaggedTensor.from_row_starts(places, starts, validate=False)
        return RaggedTensor.from_row_splits(words, splits, validate=False)

    def after_marks(self, ends: tf.Tensor) -> tf.Tensor:
        """Moves the ends of spans past combining marks, which belong to the preceding character.

        Same rule as `tasks.squad.predictions.cut`.
        """
        is_firm = tf.logical_not(self.are(tables.ACCENT))
        return tf.gather(tf.where(is_firm)[:, 0], tf.gather(num_before(is_firm), ends))

    def cut(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the text of the spans [start, end), string [N]."""
        places = tf.ragged.range(starts, tf.maximum(starts, ends), row_splits_dtype=tf.int64)
        points = places.with_values(tf.gather(self.points, places.values))
        return tf.strings.unicode_encode(points, "UTF-8")

    def in_text(self, places: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """Converts indices of code points into indices within their texts, int32 [N].

        Args:
            places: int64 [N], indices in `points`.
            texts: The index of the text that each belongs to.
        """
        return tf.cast(places - tf.gather(self.splits, texts), tf.int32)


class Words(NamedTuple):
    """Normalized words of B texts."""

    words: tf.RaggedTensor  # int32 [B,(words),(characters)], code points
    places: tf.RaggedTensor  # int64, same shape; the index in `given` of each one's source
    given: Points  # all texts with a space after each


class Tokens(NamedTuple):
    """P tokens of B texts, with their positions in the texts."""

    ids: tf.RaggedTensor  # int32 [B,(tokens)]
    starts: tf.Tensor  # int64 [P], the index in `given` of each token's first character
    ends: tf.Tensor  # int64 [P], one more than the index of its last character
    given: Points  # all texts with one more character after each


def words_of(text: tf.Tensor, *, lowercase: bool) -> Words:
    """Splits texts, string [B], into words.

    Bytes that are not valid UTF-8 are dropped. All ops run on the CPU, which holds the strings.

    Args:
        text: string [B].
        lowercase: Whether to convert words to lower case and to drop accents.
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
    """Decodes texts, string [B], and appends a space to each.

    The space prevents words, combining marks and sigmas of two texts from influencing each other.
    """
    given = tf.strings.unicode_decode(text + " ", "UTF-8", errors="ignore")
    return points_of(given.values, given.row_splits)


def points_of(points: tf.Tensor, splits: tf.Tensor) -> Points:
    """Returns the given code points, int32 [N], as `Points`; `splits` is int64 [B+1]."""
    return Points(points, splits, properties_of(points), tf.range(tf.size(points, tf.int64)))


def properties_of(points: tf.Tensor) -> tf.Tensor:
    """Returns the property bits and the combining class of each code point, int32 [N]."""
    return looked_up(tables.properties(), points)


def looked_up(table: tables.Table, points: tf.Tensor) -> tf.Tensor:
    """Returns the number that `table` has for each code point, int32 [N]."""
    starts = tf.gather(table.starts, tf.bitwise.right_shift(points, tables.BLOCK_BITS))
    return tf.gather(table.numbers, starts + (points & tables.BLOCK - 1))


def utf8_widths(points: tf.Tensor) -> tf.Tensor:
    """Returns the number of bytes that UTF-8 uses for each code point, int64 [N]."""
    return tf.add_n([tf.cast(points >= p, tf.int64) for p in (0, 0x80, 0x800, 0x10000)])


def _without(properties: int, read: Points) -> Points:
    return read.those(tf.logical_not(read.are(properties)))


def _with_small_sigmas(read: Points) -> Points:
    """Converts each capital sigma to lower case.

    A sigma is final (ς) if it follows a letter and no letter follows it. Case-ignorable characters
    do not count.
    """
    is_firm = tf.logical_not(read.are(tables.IGNORABLE))
    are_letters = tf.pad(tf.boolean_mask(read.are(tables.CASED), is_firm), [[1, 1]])
    place = num_before(is_firm)
    follows, precedes = tf.gather(are_letters, place[:-1]), tf.gather(are_letters, place[1:] + 1)
    is_final = follows & tf.logical_not(precedes)
    small = tf.where(is_final, _FINAL_SIGMA, _SMALL_SIGMA)
    return read._replace(points=tf.where(read.points == _CAPITAL_SIGMA, small, read.points))


def respelled(read: Points, spellings: tables.Spellings) -> Points:
    """Replaces each code point by zero, one or several code points."""
    # Unchanged code points (number 0) are gathered from the text, appended to the replacements.
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
    """Sorts each run of combining marks by combining class, which is NFD's canonical order."""
    classes = tf.cast(read.properties & tables.COMBINING_CLASS, tf.int64)
    places = tf.where(classes > 0)
    keys = tf.gather_nd(num_before(classes == 0), places) * (tables.COMBINING_CLASS + 1)
    order = tf.argsort(keys + tf.gather_nd(classes, places), stable=True)
    sources = tf.gather(places, order)
    return read.each(
        lambda each: tf.tensor_scatter_nd_update(each, places, tf.gather_nd(each, sources))
    )
