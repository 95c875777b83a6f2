"""Normalizes texts by the table of a SentencePiece model inside a TF graph, as `tokenizers` does.

The normalizer Precompiled of `tokenizers` divides a text into graphemes (Unicode Standard Annex
29). If a grapheme has less than 6 bytes in UTF-8 and begins with an entry of the table, the entry's
value replaces all of it. Otherwise each character is replaced by itself.
"""

import base64
import unicodedata
from collections.abc import Mapping
from functools import cache

import numpy as np
import tensorflow as tf
from tokenizers.normalizers import Precompiled

from bert_keras.exporting.text_ops.flat import following, num_before, previous
from bert_keras.exporting.text_ops.unicode_tables import (
    BLOCK,
    PointTable,
    Replacements,
    table_of,
    without_surrogates,
)
from bert_keras.exporting.text_ops.words import Points, looked_up, replaced, utf8_widths

MAX_BYTES = 5  # of a grapheme that is replaced as a whole
# How a character divides graphemes: it continues the preceding one, the next character continues
# it, or it is a grapheme by itself.
_EXTENDS, _PREPENDS, _ALONE = 1, 2, 4
_ACUTE = "\u0301"  # 2 bytes; continues every grapheme
_FOUR_BYTES = chr(0x10000)  # the first character of 4 bytes
_POINTS = 1 << 21  # exceeds the largest code point
_NONE = -1


class Graphemes(tf.Module):
    """Replaces graphemes and characters.

    Graphemes of at least two Hangul letters, Indic consonants or emojis have 6 bytes or more, so it
    is not determined where they end. A combining mark of 2 bytes after one of them is taken for a
    part of its last character.

    Args:
        charsmap: The table, `precompiled_charsmap` in a tokenizer.json.
        replacements: The replacement of each single character.
    """

    def __init__(self, charsmap: str, replacements: Replacements):
        super().__init__()
        self._replacements = replacements
        pairs = _pairs(base64.b64decode(charsmap))
        keys = np.array([[*map(ord, pair)] for pair in pairs], np.int64).reshape(-1, 2)
        self._values = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                keys @ [_POINTS, 1], np.array([*map(ord, pairs.values())], np.int32)
            ),
            default_value=_NONE,
        )

    def __call__(self, points: Points) -> Points:
        """Returns normalized texts; the source indices are those of `tokenizers`."""
        kinds = looked_up(_kinds(), points.values)
        ends = points.splits[1:, None] - 1  # the space after each text
        kinds = tf.tensor_scatter_nd_update(kinds, ends, tf.fill(tf.shape(ends)[:1], _ALONE))
        before = previous(kinds, 1, filler=_ALONE)
        is_joined = (kinds & _EXTENDS > 0) | (before & _PREPENDS > 0)
        is_start = tf.logical_not(is_joined & ((kinds | before) & _ALONE == 0))
        index = num_before(is_start)[1:] - 1  # the grapheme of each character
        sizes = tf.math.segment_sum(utf8_widths(points.values), index)
        lengths = tf.math.segment_sum(tf.ones_like(index), index)
        is_short = tf.gather((sizes <= MAX_BYTES) & (lengths > 1), index)
        pairs = self._pair_values(points.values)
        is_mapped = looked_up(self._replacements.indices, points.values) > 0
        is_first = is_start & is_short & (is_mapped | (pairs != _NONE))
        is_replaced = tf.gather(tf.boolean_mask(is_first, is_start), index)
        is_dropped = is_replaced & tf.logical_not(is_start)
        values = tf.where(is_first & tf.logical_not(is_mapped), pairs, points.values)
        num_sources = tf.where(is_first, tf.gather(lengths, index), 1)
        kept = points._replace(values=values, source_indices=num_sources).without(is_dropped)
        num_sources = kept.source_indices
        indices = tf.range(tf.size(num_sources, tf.int64))
        normal = replaced(kept._replace(source_indices=indices), self._replacements)
        sources = _sources(normal.source_indices, num_sources)
        return normal._replace(source_indices=tf.gather(points.source_indices, sources))

    def _pair_values(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the value for each character and the following one; _NONE if there is none."""
        keys = tf.cast(values, tf.int64) * _POINTS + tf.cast(following(values, 1), tf.int64)
        return self._values.lookup(keys)


def _sources(groups: tf.Tensor, num_sources: tf.Tensor) -> tf.Tensor:
    """Returns the index of the character from which `tokenizers` says that each new one comes.

    It counts by how many characters each new one makes the text longer (1) or shorter. What is
    removed counts for the new character before it.

    Args:
        groups: The index of what was replaced to get each new character, int64 [M], ascending.
        num_sources: How many characters were replaced together, int64 [N].

    Returns:
        int64 [M].
    """
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(groups), groups, tf.size(num_sources))
    starts = tf.cumsum(sizes, exclusive=True)
    offsets = tf.range(tf.size(groups, tf.int64)) - tf.gather(starts, groups)
    growth = tf.cast(offsets >= tf.gather(num_sources, groups), tf.int64)
    removed = tf.minimum(sizes - num_sources, 0)
    # The first element is for what is removed before the first new character.
    growth = tf.pad(growth, [[1, 0]])
    growth = tf.tensor_scatter_nd_add(growth, (starts + sizes)[:, None], removed)
    before, growth = growth[0], growth[1:]
    return tf.cumsum(1 - growth, exclusive=True) - before - tf.maximum(growth, 0)


def _pairs(charsmap: bytes) -> Mapping[str, str]:
    """Returns the entries of two characters, for graphemes whose first character has no entry.

    The file has the length of a double-array trie in bytes, the trie, and the values, each with a
    zero byte after it. A unit of the trie has the label of its character in bits 0 to 7, whether a
    value follows in bit 8, and the distance to its children above (darts-clone).
    """
    start = 4 + int.from_bytes(charsmap[:4], "little")
    units, texts = np.frombuffer(charsmap[4:start], "<u4").astype(np.int64), charsmap[start:]
    labels, children = np.arange(1, 256), (units >> 10) << ((units & 1 << 9) >> 6)
    entries, keys, nodes = {}, [b""], np.array([children[0]])
    for _ in range(MAX_BYTES):
        units_NL = nodes[:, None] ^ labels
        units_NL = np.where(units_NL < len(units), units_NL, 0)
        rows, columns = np.nonzero((units[units_NL] & (1 << 31 | 0xFF)) == labels)
        found = units_NL[rows, columns]
        prefixes = [keys[row] for row in rows]
        keys = [
            prefix + bytes([label]) for prefix, label in zip(prefixes, labels[columns], strict=True)
        ]
        nodes = found ^ children[found]
        for key, unit, node in zip(keys, units[found], nodes, strict=True):
            if unit >> 8 & 1:
                entries[key] = texts[units[node] & (1 << 31) - 1 :].split(b"\0", 1)[0]
    texts = {key.decode(): value.decode() for key, value in entries.items()}
    return {key: value for key, value in texts.items() if len(key) == 2 and key[0] not in texts}


@cache
def _kinds() -> PointTable:
    """Returns how each code point divides graphemes, with the Unicode tables of `tokenizers`."""
    divide = _divider().normalize_str

    def kind(character: str) -> int:
        kind = _EXTENDS * (len(divide("a" + character)) == 1)
        kind |= _PREPENDS * (len(divide(character + "a")) == 1)
        if character < _FOUR_BYTES:
            return kind | _ALONE * (len(divide(character + _ACUTE)) > 1)
        return kind or _ALONE * (unicodedata.category(character) == "Cf")

    def of_block(block: str) -> list[int]:
        block = without_surrogates(block)
        # With a letter before and after each character, nothing is joined in most of these blocks.
        is_joined = len(divide("a".join(["", *block, ""]))) != 2 * BLOCK + 1
        if block[0] < _FOUR_BYTES or is_joined or "Cf" in map(unicodedata.category, block):
            return [*map(kind, block)]
        return [0] * BLOCK

    return table_of(of_block)


def _divider() -> Precompiled:
    """Returns a normalizer whose table has an entry for each byte.

    A grapheme of at most MAX_BYTES becomes one character, and one that is longer a character for
    each of its own.
    """
    units = np.zeros(512, "<u4")
    labels = np.arange(1, 256, dtype="<u4")
    units[0] = 256 << 10
    units[256 ^ labels] = labels | 1 << 8 | 256 << 10
    return Precompiled(units.nbytes.to_bytes(4, "little") + units.tobytes() + b"?\0")
