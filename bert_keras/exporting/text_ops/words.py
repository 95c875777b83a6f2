"""Splits raw text into the same words as `bert_keras.text`, inside a TF graph.

Most tensors are flat: they concatenate the elements of several texts. The graph contains Unicode
tables, so the result does not depend on those of a server or its locale.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from bert_keras.exporting.text_ops import unicode_tables as tables

RaggedTensor: Any = tf.RaggedTensor  # the type checker's stubs lack its constructors
_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = map(ord, "Σσς")


def regrouped(rows: tf.RaggedTensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Concatenates consecutive rows: row n of the result has the rows splits[n] to splits[n+1]."""
    splits = tf.gather(rows.row_splits, splits)
    return RaggedTensor.from_row_splits(rows.values, splits, validate=False)


def num_before(is_chosen: tf.Tensor) -> tf.Tensor:
    """Counts the True elements of bool [N] before each position and before the end, int64 [N+1]."""
    return tf.pad(tf.cumsum(tf.cast(is_chosen, tf.int64)), [[1, 0]])


def previous(values: tf.Tensor, distance: int = 1, *, filler: float = 0) -> tf.Tensor:
    """Returns the value `distance` positions before each element; `filler` where none exists."""
    return tf.pad(values, [[distance, 0]], constant_values=filler)[: tf.size(values)]


def following(values: tf.Tensor, distance: int = 1) -> tf.Tensor:
    """Returns the value `distance` positions after each element; 0 or False where none exists."""
    return tf.pad(values, [[0, distance]])[distance:]


def every_second(is_chosen: tf.Tensor) -> tf.Tensor:
    """Keeps the first, third, fifth, ... element of each run of True elements, bool [N]."""
    is_start = is_chosen & tf.logical_not(previous(is_chosen))
    starts = tf.pad(tf.where(is_start)[:, 0], [[1, 0]])
    start = tf.gather(starts, num_before(is_start)[1:])
    offset = tf.range(tf.size(is_chosen, tf.int64)) - start
    return is_chosen & (tf.math.floormod(offset, 2) == 0)


class Points(NamedTuple):
    """Code points of B texts, one text after another."""

    values: tf.Tensor  # int32 [N]
    splits: tf.Tensor  # int64 [B+1], the index of each text's first code point, then N
    properties: tf.Tensor  # int32 [N], property bits and combining class (unicode_tables.py)
    # int64 [N], the index in the source texts of the code point that each one comes from
    source_indices: tf.Tensor

    def has_any(self, properties: int) -> tf.Tensor:
        """Returns whether each code point has any of these property bits, bool [N]."""
        return self.properties & properties != 0

    def map(self, function: Callable[[tf.Tensor], tf.Tensor]) -> "Points":
        """Applies `function` to all tensors except `splits`."""
        values, splits, *others = self
        return Points(function(values), splits, *map(function, others))

    def without(self, is_dropped: tf.Tensor) -> "Points":
        """Returns the code points for which `is_dropped`, bool [N], is False."""
        is_other = tf.logical_not(is_dropped)
        points = self.map(partial(tf.gather, indices=tf.where(is_other)[:, 0]))
        return points._replace(splits=tf.gather(num_before(is_other), self.splits))

    def words(self, *, is_first: tf.Tensor, is_space: tf.Tensor) -> tf.RaggedTensor:
        """Groups the indices of code points into words, int64 [B,(words),(characters)].

        `is_first`, bool [N], says where a word begins, `is_space` what belongs to no word.
        """
        indices = tf.where(tf.logical_not(is_space))[:, 0]
        starts = tf.where(tf.gather(is_first, indices))[:, 0]
        splits = tf.gather(num_before(is_first), self.splits)
        words = RaggedTensor.from_row_starts(indices, starts, validate=False)
        return RaggedTensor.from_row_splits(words, splits, validate=False)

    def after_marks(self, ends: tf.Tensor) -> tf.Tensor:
        """Moves the ends of spans past combining marks, as `downstream.squad.answers.cut`."""
        is_base = tf.logical_not(self.has_any(tables.ACCENT))
        return tf.gather(tf.where(is_base)[:, 0], tf.gather(num_before(is_base), ends))

    def cut(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the text of the spans [start, end), string [N]."""
        indices = tf.ragged.range(starts, tf.maximum(starts, ends), row_splits_dtype=tf.int64)
        points = indices.with_values(tf.gather(self.values, indices.values))
        return tf.strings.unicode_encode(points, "UTF-8")

    def in_text(self, indices: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """Converts indices in `values` into indices in the text `texts` of each, int32 [N]."""
        return tf.cast(indices - tf.gather(self.splits, texts), tf.int32)


class TextWords(NamedTuple):
    """Normalized words of B texts."""

    words: tf.RaggedTensor  # int32 [B,(words),(characters)], code points
    source_indices: tf.RaggedTensor  # int64, same shape; the index in `source` of each character
    source: Points  # all texts with a space after each


class TextTokens(NamedTuple):
    """P tokens of B texts, with their positions in the texts."""

    ids: tf.RaggedTensor  # int32 [B,(tokens)]
    starts: tf.Tensor  # int64 [P], the index in `source` of each token's first character
    ends: tf.Tensor  # int64 [P], one more than the index of its last character
    source: Points  # all texts with one more character after each


def words_of(text: tf.Tensor, *, lowercase: bool) -> TextWords:
    """Splits texts, string [B], into words; with `lowercase` in lower case and without accents."""
    with tf.device("CPU:0"):
        source = source_points(text)
        points, dropped = source, tables.DROPPED
        if lowercase:
            small = replaced(_with_lowercase_sigmas(source), tables.lowercase_decomposed())
            points, dropped = in_order(small), tables.ACCENT
        points = points.without(points.has_any(dropped))
        is_space = points.has_any(tables.SPACE)
        is_within = tf.logical_not(points.has_any(tables.SPACE | tables.ALONE))
        continues = is_within & previous(is_within)
        characters = points.words(is_first=tf.logical_not(is_space | continues), is_space=is_space)
        words, source_indices = (
            characters.with_flat_values(tf.gather(each, characters.flat_values))
            for each in (points.values, points.source_indices)
        )
        return TextWords(words, source_indices, source)


def source_points(text: tf.Tensor, *, end: str = " ") -> Points:
    """Decodes texts, string [B], without invalid bytes, and appends the character `end` to each.

    It prevents words, combining marks and sigmas of two texts from influencing each other.
    """
    decoded = tf.strings.unicode_decode(text + end, "UTF-8", errors="ignore")
    return points_of(decoded.values, decoded.row_splits)


def points_of(values: tf.Tensor, splits: tf.Tensor) -> Points:
    """Returns code points, int32 [N], as `Points`; `splits` is int64 [B+1]."""
    properties = looked_up(tables.properties(), values)
    return Points(values, splits, properties, tf.range(tf.size(values, tf.int64)))


def looked_up(table: tables.PointTable, points: tf.Tensor) -> tf.Tensor:
    """Returns the value that `table` has for each code point, int32 [N]."""
    starts = tf.gather(table.starts, tf.bitwise.right_shift(points, tables.BLOCK_BITS))
    return tf.gather(table.values, starts + (points & tables.BLOCK - 1))


def utf8_widths(points: tf.Tensor) -> tf.Tensor:
    """Returns the number of bytes that UTF-8 uses for each code point, int64 [N]."""
    return tf.add_n([tf.cast(points >= first, tf.int64) for first in (0, 0x80, 0x800, 0x10000)])


def _with_lowercase_sigmas(points: Points) -> Points:
    """Converts capital sigmas to lower case: to ς after a letter and before no other, else to σ."""
    is_relevant = tf.logical_not(points.has_any(tables.IGNORABLE))
    is_letter = tf.pad(tf.boolean_mask(points.has_any(tables.CASED), is_relevant), [[1, 1]])
    index = num_before(is_relevant)
    follows, precedes = tf.gather(is_letter, index[:-1]), tf.gather(is_letter, index[1:] + 1)
    small = tf.where(follows & tf.logical_not(precedes), _FINAL_SIGMA, _SMALL_SIGMA)
    return points._replace(values=tf.where(points.values == _CAPITAL_SIGMA, small, points.values))


def replaced(points: Points, replacements: tables.Replacements) -> Points:
    """Replaces each code point by zero, one or several code points."""
    # Unchanged code points (index 0) are gathered from the text, appended to the replacements.
    index = looked_up(replacements.indices, points.values)
    starts = tf.constant(replacements.starts)
    from_text = len(replacements.points) + tf.range(tf.size(index))
    first = tf.where(index == 0, from_text, tf.gather(starts, index))
    length = tf.gather(starts[1:] - starts[:-1], index)
    indices = tf.ragged.range(first, first + length, row_splits_dtype=tf.int64)
    values = tf.gather(tf.concat([replacements.points, points.values], axis=0), indices.values)
    splits = tf.gather(indices.row_splits, points.splits)
    source_indices = tf.gather(points.source_indices, indices.value_rowids())
    return points_of(values, splits)._replace(source_indices=source_indices)


def in_order(points: Points) -> Points:
    """Sorts each run of combining marks by combining class, which is NFD's canonical order."""
    classes = tf.cast(points.properties & tables.COMBINING_CLASS, tf.int64)
    marks = tf.where(classes > 0)
    keys = tf.gather_nd(num_before(classes == 0), marks) * (tables.COMBINING_CLASS + 1)
    order = tf.argsort(keys + tf.gather_nd(classes, marks), stable=True)
    ordered = tf.gather(marks, order)
    return points.map(
        lambda each: tf.tensor_scatter_nd_update(each, marks, tf.gather_nd(each, ordered))
    )
