"""Normalizes texts to Unicode's form NFC inside a TF graph, as the library `tokenizers` does.

NFC decomposes each character, sorts its combining marks, and composes both again (Unicode Standard
Annex 15). The tables are taken from `tokenizers`: it has an older version of Unicode than Python
and the ICU library of a server, and its texts must equal those of training.
"""

import sys
import unicodedata
from functools import cache

import numpy as np
import tensorflow as tf
from tokenizers.normalizers import NFC, NFD

from bert_keras.exporting.text_ops.flat import RaggedTensor, previous
from bert_keras.exporting.text_ops.unicode_tables import (
    COMBINING_CLASS,
    PointTable,
    Replacements,
    replacements_of,
    table_of,
)
from bert_keras.exporting.text_ops.words import Points, in_order, looked_up, points_of, replaced

# Bit of a character that can be the second one of a composition.
_SECOND = COMBINING_CLASS + 1
_ACUTE, _OVERLAY = "\u0301", "\u0334"  # marks of the combining classes 230 and 1
_POINTS = 1 << 21  # exceeds the largest code point
_NONE = -1


class Composition(tf.Module):
    """Converts texts to NFC."""

    def __init__(self):
        super().__init__()
        pairs = np.array([[*map(ord, pair)] for pair in _compositions()], np.int64)
        composites = np.array([*map(ord, _compositions().values())], np.int32)
        self._composites = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(pairs @ [_POINTS, 1], composites),
            default_value=_NONE,
        )

    def __call__(self, points: Points) -> Points:
        """Returns texts in NFC.

        The source indices are those of `tokenizers`: a composed character has the index of the
        first character that it comes from.
        """
        points = replaced(points, _decompositions())
        # By how many characters each one makes the text longer.
        is_more = points.source_indices == previous(points.source_indices, 1, filler=_NONE)
        points = points._replace(
            properties=looked_up(_properties(), points.values),
            source_indices=tf.cast(is_more, tf.int64),
        )
        points = in_order(points)
        values, targets = self._composed(points)
        is_absorbed = targets != tf.range(tf.size(targets, tf.int64))
        absorbed = tf.where(is_absorbed)
        growth = tf.tensor_scatter_nd_add(
            points.source_indices,
            tf.gather_nd(targets, absorbed)[:, None],
            tf.gather_nd(points.source_indices, absorbed) - 1,
        )
        points = points._replace(values=values, source_indices=growth).without(is_absorbed)
        growth = points.source_indices
        first = tf.cumsum(1 - growth, exclusive=True) - tf.maximum(growth, 0)
        return points_of(points.values, points.splits)._replace(source_indices=first)

    def _composed(self, points: Points) -> tuple[tf.Tensor, tf.Tensor]:
        """Composes characters of decomposed texts.

        Each step takes the next character of every run. A run is a character and those after it
        that can be composed with it or are combining marks.

        Returns:
            The code points, int32 [N], and for each the index of the one that it is part of, which
            is its own index if it is not composed with an earlier one, int64 [N].
        """
        size = tf.size(points.values, tf.int64)
        is_first = (points.properties == 0) | (tf.range(size) == 0)
        runs = RaggedTensor.from_row_starts(
            tf.range(size), tf.where(is_first)[:, 0], validate=False
        )
        has_marks = runs.row_lengths() > 1
        starts = tf.boolean_mask(runs.row_starts(), has_marks)
        lengths = tf.boolean_mask(runs.row_lengths(), has_marks)

        def step(number, values, targets, starters, last_classes):
            is_active = lengths > number
            index = starts + tf.where(is_active, number, 0)
            value = tf.gather(values, index)
            combining_class = tf.gather(points.properties, index) & COMBINING_CLASS
            keys = tf.cast(tf.gather(values, starters), tf.int64) * _POINTS
            composites = self._composites.lookup(keys + tf.cast(value, tf.int64))
            # A mark of the same class between both characters blocks their composition.
            is_open = (last_classes == 0) | (last_classes < combining_class)
            is_composed = is_active & is_open & (composites != _NONE)
            composed = tf.where(is_composed)
            at = tf.gather_nd(starters, composed)
            values = tf.tensor_scatter_nd_update(
                values, at[:, None], tf.gather_nd(composites, composed)
            )
            targets = tf.tensor_scatter_nd_update(
                targets, tf.gather_nd(index, composed)[:, None], at
            )
            is_kept = is_active & tf.logical_not(is_composed)
            starters = tf.where(is_kept & (combining_class == 0), index, starters)
            last_classes = tf.where(is_kept, combining_class, last_classes)
            return number + 1, values, targets, starters, last_classes

        longest = tf.reduce_max(tf.pad(lengths, [[0, 1]]))
        _, values, targets, _, _ = tf.while_loop(
            lambda number, *_: number < longest,
            step,
            (
                *(tf.constant(1, tf.int64), points.values, tf.range(size), starts),
                tf.zeros_like(starts, tf.int32),
            ),
        )
        return values, targets


@cache
def _decomposed() -> dict[str, str]:
    """Returns the decomposition of each character that has one."""
    blocks = (range(first, first + 0x800) for first in range(0, sys.maxunicode + 1, 0x800))
    texts = ("".join(map(chr, block)) for block in blocks if block[0] != 0xD800)  # no surrogates
    return {
        character: NFD().normalize_str(character)
        for text in texts
        if NFD().normalize_str(text) != text
        for character in text
        if NFD().normalize_str(character) != character
    }


@cache
def _compositions() -> dict[str, str]:
    """Returns the character that two characters compose, by these two characters."""
    normalize = NFC().normalize_str
    return {
        normalize(parts[:-1]) + parts[-1]: character
        for character, parts in _decomposed().items()
        if normalize(character) == character
    }


@cache
def _decompositions() -> Replacements:
    return replacements_of(lambda block: [_decomposed().get(each, each) for each in block])


@cache
def _properties() -> PointTable:
    """Returns the canonical combining class of each code point, and `_SECOND`.

    The library does not expose the classes. Where it sorts a character next to another mark, its
    class is that of Python.
    """
    seconds = {second for _, second in _compositions()}

    def combining_class(character: str) -> int:
        python_class = unicodedata.combining(character)
        is_sorted = python_class > 0 and any(
            NFD().normalize_str(text) != text for text in (_ACUTE + character, character + _OVERLAY)
        )
        return python_class * is_sorted

    return table_of(
        lambda block: [combining_class(each) | _SECOND * (each in seconds) for each in block]
    )
