"""Converts Python's Unicode tables into arrays that a graph indexes by code point."""

import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from bert_keras.text.google_words import is_alone, is_dropped

BLOCK_BITS = 8
# Code points in a block. Most blocks are equal, so a table stores each distinct block once.
BLOCK = 1 << BLOCK_BITS
# Bits of a character's properties. The lower 8 bits hold its canonical combining class.
SPACE, ALONE, DROPPED, ACCENT, CASED, IGNORABLE = (1 << bit for bit in range(8, 14))
COMBINING_CLASS = 0xFF


class PointTable(NamedTuple):
    """A value for each code point: `values[starts[point // BLOCK] + point % BLOCK]`."""

    starts: np.ndarray  # int32, the index in `values` at which each block begins
    values: np.ndarray  # int32, the values of all distinct blocks


class Replacements(NamedTuple):
    """The replacement of each code point: replacement n is `points[starts[n] : starts[n + 1]]`."""

    indices: PointTable  # the index of each code point's replacement; 0 keeps the code point
    points: np.ndarray  # int32, the code points of all replacements
    starts: np.ndarray  # int32, the index in `points` at which each replacement begins


@cache
def properties() -> PointTable:
    """Returns the property bits and the canonical combining class of each code point."""

    def of_block(block: str) -> list[int]:
        if _is_assigned(block):
            return [*map(_properties, block)]
        # An unassigned block lies completely inside or outside the CJK ranges.
        return [ALONE * is_alone(block[0])] * BLOCK

    return table_of(of_block)


@cache
def lowercase_decomposed() -> Replacements:
    """Returns each code point in lower case and NFD; dropped characters become nothing."""

    def of_block(block: str) -> Sequence[str]:
        if not _is_assigned(block):
            return block
        return [
            "" if is_dropped(each) else unicodedata.normalize("NFD", each.lower()) for each in block
        ]

    return replacements_of(of_block)


def replacements_of(of_block: Callable[[str], Sequence[str]]) -> Replacements:
    """Builds the replacements of all code points; `of_block` takes the characters of a block."""
    replacements = {"\0": 0}  # any single character, because the replacement 0 has length 1

    def indices_of(block: str) -> list[int]:
        return [
            0 if new == old else replacements.setdefault(new, len(replacements))
            for old, new in zip(block, of_block(block), strict=True)
        ]

    table = table_of(indices_of)
    points = np.array([*map(ord, "".join(replacements))], np.int32)
    starts = np.cumsum([0, *map(len, replacements)], dtype=np.int32)
    return Replacements(table, points, starts)


def table_of(of_block: Callable[[str], Sequence[int] | np.ndarray]) -> PointTable:
    """Builds a table of all code points; `of_block` takes the characters of a block."""
    block_starts = range(0, sys.maxunicode + 1, BLOCK)
    blocks = ("".join(map(chr, range(first, first + BLOCK))) for first in block_starts)
    values = np.array([of_block(block) for block in blocks], np.int32)
    distinct, block_indices = np.unique(values, axis=0, return_inverse=True)
    return PointTable(block_indices.reshape(-1).astype(np.int32) * BLOCK, distinct.reshape(-1))


def without_surrogates(block: str) -> str:
    """Replaces surrogates by "?". `tokenizers` refuses surrogates, and valid text has none."""
    return "".join("?" if 0xD800 <= ord(each) < 0xE000 else each for each in block)


@cache
def _is_assigned(block: str) -> bool:
    """Returns whether a block has a character that is not unassigned, private or a surrogate."""
    return not {*map(unicodedata.category, block)} <= {"Cn", "Co", "Cs"}


def _properties(character: str) -> int:
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
