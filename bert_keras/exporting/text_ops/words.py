"""Splits raw text into the same words as `bert_keras.text`, inside a TF graph.

Most tensors are flat: they concatenate the elements of several texts. The graph contains Python's
Unicode tables, so the result does not depend on a server's tables or locale.
"""

import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.text.tokenizer import is_alone, is_dropped

RaggedTensor: Any = tf.RaggedTensor  # the type checker's stubs lack its constructors
from_row_starts = partial(RaggedTensor.from_row_starts, validate=False)
from_row_splits = partial(RaggedTensor.from_row_splits, validate=False)
from_value_rowids = partial(RaggedTensor.from_value_rowids, validate=False)
_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = map(ord, "Σσς")
BLOCK_BITS = 8
BLOCK = 1 << BLOCK_BITS  # code points; most blocks are equal, and a table stores equal blocks once
# Bits of a character's properties: white space, a word of its own (is_alone), removed (is_dropped),
# a nonspacing mark (Mn), Unicode's Cased and Case_Ignorable.
SPACE, ALONE, DROPPED, ACCENT, CASED, IGNORABLE = (1 << bit for bit in range(8, 14))
COMBINING_CLASS = 0xFF  # the lower 8 bits hold the canonical combining class


class CodePointTable(NamedTuple):
    """A value for each code point: `values[starts[c // BLOCK] + c % BLOCK]` for c."""

    starts: np.ndarray  # int32, the index in `values` at which each block begins
    values: np.ndarray  # int32, the values of all distinct blocks


class Replacements(NamedTuple):
    """The replacement of each code point: n is `code_points[starts[n] : starts[n + 1]]`."""

    indices: CodePointTable  # the index of each code point's replacement; 0 keeps the code point
    code_points: np.ndarray  # int32, the code points of all replacements
    starts: np.ndarray  # int32, the index in `code_points` at which each replacement begins


@cache
def property_table() -> CodePointTable:
    """Returns the property bits and the canonical combining class of each code point."""

    def bits_of(character: str) -> int:
        bits = unicodedata.combining(character)
        bits |= SPACE * character.isspace() | ALONE * is_alone(character)
        bits |= ACCENT * (unicodedata.category(character) == "Mn")
        if is_dropped(character):
            return bits | DROPPED | IGNORABLE
        # Python does not expose the properties Cased and Case_Ignorable, which determine whether a
        # sigma is final. Lower-casing a sigma next to the character reveals both.
        if f"{character}Σ".lower()[-1] == "ς":
            bits |= CASED
        elif f"A{character}Σ".lower()[-1] == "ς":
            bits |= IGNORABLE
        return bits

    # An unassigned block lies completely inside or outside the CJK ranges.
    return make_table(
        lambda b: [*map(bits_of, b)] if _is_assigned(b) else [ALONE * is_alone(b[0])] * BLOCK
    )


@cache
def _lowercase_replacements() -> Replacements:
    """Returns each code point in lower case and NFD; dropped characters become nothing."""

    def normalize(character: str) -> str:
        return "" if is_dropped(character) else unicodedata.normalize("NFD", character.lower())

    return make_replacements(lambda b: [*map(normalize, b)] if _is_assigned(b) else b)


def make_replacements(texts_of: Callable[[str], Sequence[str]]) -> Replacements:
    """Builds the replacements of all code points; `texts_of` takes the characters of a block."""
    replacements = {"\0": 0}  # any single character, because the replacement 0 has length 1

    def indices_of(block: str) -> list[int]:
        return [
            0 if new == old else replacements.setdefault(new, len(replacements))
            for old, new in zip(block, texts_of(block), strict=True)
        ]

    table = make_table(indices_of)
    code_points = np.array([*map(ord, "".join(replacements))], np.int32)
    starts = np.cumsum([0, *map(len, replacements)], dtype=np.int32)
    return Replacements(table, code_points, starts)


def make_table(values_of: Callable[[str], Sequence[int] | np.ndarray]) -> CodePointTable:
    """Builds a table of all code points; `values_of` takes the characters of a block."""
    block_starts = range(0, sys.maxunicode + 1, BLOCK)
    blocks = ("".join(map(chr, range(first, first + BLOCK))) for first in block_starts)
    values = np.array([*map(values_of, blocks)], np.int32)
    distinct, block_indices = np.unique(values, axis=0, return_inverse=True)
    return CodePointTable(block_indices.reshape(-1).astype(np.int32) * BLOCK, distinct.reshape(-1))


def make_hash_table(keys: Any, values: Any, *, default: int) -> tf.lookup.StaticHashTable:
    """Returns a table from each key to its value, and from any other key to `default`."""
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


def replace_surrogates(block: str) -> str:
    """Replaces surrogates by "?". `tokenizers` refuses surrogates, and valid text has none."""
    return "".join("?" if 0xD800 <= ord(each) < 0xE000 else each for each in block)


@cache
def _is_assigned(block: str) -> bool:
    """Returns whether a block has a character that is not unassigned, private or a surrogate."""
    return not {*map(unicodedata.category, block)} <= {"Cn", "Co", "Cs"}


def merge_rows(rows: tf.RaggedTensor, splits: tf.Tensor) -> tf.RaggedTensor:
    """Concatenates consecutive rows: row n of the result has the rows splits[n] to splits[n+1]."""
    return from_row_splits(rows.values, tf.gather(rows.row_splits, splits))


def num_before(is_chosen: tf.Tensor) -> tf.Tensor:
    """Counts the True elements of bool [X] before each position and before the end, int64 [X+1]."""
    return tf.pad(tf.cumsum(tf.cast(is_chosen, tf.int64)), [[1, 0]])


def previous(values: tf.Tensor, distance: int = 1, *, filler: float = 0) -> tf.Tensor:
    """Returns the value `distance` positions before each element; `filler` where none exists."""
    return tf.pad(values, [[distance, 0]], constant_values=filler)[: tf.size(values)]


def following(values: tf.Tensor, distance: int = 1) -> tf.Tensor:
    """Returns the value `distance` positions after each element; 0 or False where none exists."""
    return tf.pad(values, [[0, distance]])[distance:]


def every_second(is_chosen: tf.Tensor) -> tf.Tensor:
    """Keeps the first, third, fifth, ... element of each run of True elements, bool [X]."""
    is_start = is_chosen & tf.logical_not(previous(is_chosen))
    starts = tf.pad(tf.where(is_start)[:, 0], [[1, 0]])
    start = tf.gather(starts, num_before(is_start)[1:])
    offset = tf.range(tf.size(is_chosen, tf.int64)) - start
    return is_chosen & (tf.math.floormod(offset, 2) == 0)


class CodePoints(NamedTuple):
    """Code points of B texts, one text after another."""

    values: tf.Tensor  # int32 [X]
    splits: tf.Tensor  # int64 [B+1], the index of each text's first code point, then X
    properties: tf.Tensor  # int32 [X], property bits and combining class of each
    source_indices: tf.Tensor  # int64 [X], the index of the source character each came from

    def has_any(self, bits: int) -> tf.Tensor:
        """Returns whether each code point has any of these property bits, bool [X]."""
        return self.properties & bits != 0

    def map(self, function: Callable[[tf.Tensor], tf.Tensor]) -> "CodePoints":
        """Applies `function` to all tensors except `splits`."""
        values, splits, *others = self
        return CodePoints(function(values), splits, *map(function, others))

    def without(self, is_dropped: tf.Tensor) -> "CodePoints":
        """Returns the code points for which `is_dropped`, bool [X], is False."""
        is_other = tf.logical_not(is_dropped)
        points = self.map(partial(tf.gather, indices=tf.where(is_other)[:, 0]))
        return points._replace(splits=tf.gather(num_before(is_other), self.splits))

    def words(self, *, is_first: tf.Tensor, is_space: tf.Tensor) -> tf.RaggedTensor:
        """Groups the indices of code points into words, int64 [B,(words),(characters)].

        `is_first`, bool [X], is where a word begins. Where `is_space` is True, there is no word.
        """
        indices = tf.where(tf.logical_not(is_space))[:, 0]
        starts = tf.where(tf.gather(is_first, indices))[:, 0]
        splits = tf.gather(num_before(is_first), self.splits)
        return from_row_splits(from_row_starts(indices, starts), splits)

    def after_marks(self, ends: tf.Tensor) -> tf.Tensor:
        """Moves the ends of spans past combining marks, as `kinds.span.with_marks`."""
        is_base = tf.logical_not(self.has_any(ACCENT))
        return tf.gather(tf.where(is_base)[:, 0], tf.gather(num_before(is_base), ends))

    def span_texts(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the text of the spans [start, end), string [X]."""
        indices = tf.ragged.range(starts, tf.maximum(starts, ends), row_splits_dtype=tf.int64)
        characters = indices.with_values(tf.gather(self.values, indices.values))
        return tf.strings.unicode_encode(characters, "UTF-8")

    def in_text(self, indices: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """Returns each index relative to its text's start, int32; `texts` [X] has text numbers."""
        return tf.cast(indices - tf.gather(self.splits, texts), tf.int32)


class TextTokens(NamedTuple):
    """The tokens of B texts, with their positions in the texts."""

    ids: tf.RaggedTensor  # int32 [B,(tokens)]
    starts: tf.Tensor  # int64 [tokens], the index in `source` of each token's first character
    ends: tf.Tensor  # int64 [tokens], one more than the index of its last character
    source: CodePoints  # all texts with one more character after each


def split_words(
    text: tf.Tensor, *, lowercase: bool
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, CodePoints]:
    """Splits texts, string [B], into words; with `lowercase` in lower case and without accents.

    Returns the code points of the words, int32 [B,(words),(characters)], the index in the source of
    each, int64 of the same shape, and the source: all texts with a space after each.
    """
    with tf.device("CPU:0"):
        source = decode_points(text)
        points, unwanted = source, DROPPED
        if lowercase:
            lower = replace_points(_lowercase_sigmas(source), _lowercase_replacements())
            points, unwanted = sort_marks(lower), ACCENT  # `lower` has no dropped characters
        points = points.without(points.has_any(unwanted))
        is_space = points.has_any(SPACE)
        is_within = tf.logical_not(points.has_any(SPACE | ALONE))
        continues = is_within & previous(is_within)
        characters = points.words(is_first=tf.logical_not(is_space | continues), is_space=is_space)
        indices = characters.flat_values
        words = characters.with_flat_values(tf.gather(points.values, indices))
        source_indices = characters.with_flat_values(tf.gather(points.source_indices, indices))
        return words, source_indices, source


def decode_points(text: tf.Tensor, *, end: str = " ") -> CodePoints:
    """Decodes texts, string [B], without invalid bytes, and with `end`, which separates them."""
    decoded = tf.strings.unicode_decode(text + end, "UTF-8", errors="ignore")
    return make_points(decoded.values, decoded.row_splits)


def make_points(values: tf.Tensor, splits: tf.Tensor) -> CodePoints:
    """Returns code points, int32 [X], as `CodePoints`; `splits` is int64 [B+1]."""
    indices = tf.range(tf.size(values, tf.int64))
    return CodePoints(values, splits, look_up(property_table(), values), indices)


def look_up(table: CodePointTable, code_points: tf.Tensor) -> tf.Tensor:
    """Returns the value that `table` has for each code point, int32 [X]."""
    starts = tf.gather(table.starts, tf.bitwise.right_shift(code_points, BLOCK_BITS))
    return tf.gather(table.values, starts + (code_points & (BLOCK - 1)))


def utf8_widths(values: tf.Tensor) -> tf.Tensor:
    """Returns the number of bytes that UTF-8 uses for each code point, int64 [X]."""
    return tf.add_n([tf.cast(values >= first, tf.int64) for first in (0, 0x80, 0x800, 0x10000)])


def _lowercase_sigmas(points: CodePoints) -> CodePoints:
    """Converts capital sigmas to lower case: to ς at the end of a word, elsewhere to σ."""
    # Unicode's condition Final_Sigma: a cased letter precedes and none follows, ignoring
    # Case_Ignorable. `is_cased` has one more False at each end, for "none".
    is_considered = tf.logical_not(points.has_any(IGNORABLE))
    is_cased = tf.pad(tf.boolean_mask(points.has_any(CASED), is_considered), [[1, 1]])
    index = num_before(is_considered)
    has_cased_before = tf.gather(is_cased, index[:-1])
    has_cased_after = tf.gather(is_cased, index[1:] + 1)
    small = tf.where(has_cased_before & tf.logical_not(has_cased_after), _FINAL_SIGMA, _SMALL_SIGMA)
    return points._replace(values=tf.where(points.values == _CAPITAL_SIGMA, small, points.values))


def replace_points(points: CodePoints, replacements: Replacements) -> CodePoints:
    """Replaces each code point by zero, one or several code points."""
    # Gathered from the replacements followed by the text, which has the unchanged ones (index 0).
    index = look_up(replacements.indices, points.values)
    starts = tf.constant(replacements.starts)
    from_text = len(replacements.code_points) + tf.range(tf.size(index))
    first = tf.where(index == 0, from_text, tf.gather(starts, index))
    length = tf.gather(starts[1:] - starts[:-1], index)
    indices = tf.ragged.range(first, first + length, row_splits_dtype=tf.int64)
    values = tf.gather(tf.concat([replacements.code_points, points.values], 0), indices.values)
    splits = tf.gather(indices.row_splits, points.splits)
    source_indices = tf.gather(points.source_indices, indices.value_rowids())
    return make_points(values, splits)._replace(source_indices=source_indices)


def sort_marks(points: CodePoints) -> CodePoints:
    """Sorts each run of combining marks by combining class, which is NFD's canonical order."""
    classes = tf.cast(points.properties & COMBINING_CLASS, tf.int64)
    marks = tf.where(classes > 0)
    keys = tf.gather_nd(num_before(classes == 0), marks) * (COMBINING_CLASS + 1)
    ordered = tf.gather(marks, tf.argsort(keys + tf.gather_nd(classes, marks), stable=True))
    update = tf.tensor_scatter_nd_update
    return points.map(lambda each: update(each, marks, tf.gather_nd(each, ordered)))
