"""This Python's Unicode tables as arrays, by which a graph reads text by code points.

A server's own tables (ICU's, RE2's) are of another year, and its locale changes them.
"""

import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from bert_keras.text.google_words import is_alone, is_dropped

BLOCK_BITS = 8
BLOCK = 1 << BLOCK_BITS  # code points; most blocks are alike, so each kind of block is kept once

# Bits of a character's properties; the others are its canonical combining class.
SPACE, ALONE, DROPPED, ACCENT, CASED, IGNORABLE = (1 << bit for bit in range(8, 14))
COMBINING_CLASS = 0xFF


class Table(NamedTuple):
    """A number for every code point: `numbers[starts[point // BLOCK] + point % BLOCK]`."""

    starts: np.ndarray
    numbers: np.ndarray


class Spellings(NamedTuple):
    """What code points become: number n is points[starts[n] : starts[n + 1]], 0 the point itself"""

    numbers: Table
    points: np.ndarray
    starts: np.ndarray


@cache
def properties() -> Table:
    """Bits of every character, and its canonical combining class."""

    def of_block(block: str) -> list[int]:
        if is_assigned(block):
            return [*map(_properties, block)]
        return [ALONE * is_alone(block[0])] * BLOCK  # no such block lies halfway in a CJK range

    return table_of(of_block)


@cache
def small_decomposed() -> Spellings:
    """Lower case, then NFD; nothing where the character is dropped."""

    def of_block(block: str) -> Sequence[str]:
        if not is_assigned(block):
            return block
        return [
            "" if is_dropped(each) else unicodedata.normalize("NFD", each.lower()) for each in block
        ]

    return spellings_of(of_block)


def spellings_of(of_block: Callable[[str], Sequence[str]]) -> Spellings:
    """`of_block` returns what each character of a block becomes."""
    spellings = {"\0": 0}  # any one character has the length of number 0

    def numbers_of(block: str) -> list[int]:
        return [
            0 if new == old else spellings.setdefault(new, len(spellings))
            for old, new in zip(block, of_block(block), strict=True)
        ]

    table = table_of(numbers_of)
    points = np.array([ord(part) for spelling in spellings for part in spelling], np.int32)
    starts = np.cumsum([0, *map(len, spellings)], dtype=np.int32)
    return Spellings(table, points, starts)


def table_of(of_block: Callable[[str], Sequence[int] | np.ndarray]) -> Table:
    """`of_block` returns the number of each character of a block."""
    firsts = range(0, sys.maxunicode + 1, BLOCK)
    blocks = ("".join(map(chr, range(first, first + BLOCK))) for first in firsts)
    numbers = np.array([of_block(block) for block in blocks], np.int32)
    kinds, of_which_kind = np.unique(numbers, axis=0, return_inverse=True)
    return Table(of_which_kind.reshape(-1).astype(np.int32) * BLOCK, kinds.reshape(-1))


@cache
def is_assigned(block: str) -> bool:
    """Whether a block has any character but unassigned and private ones and surrogates.

    Six of seven blocks have none; they are not asked character by character.
    """
    return not {*map(unicodedata.category, block)} <= {"Cn", "Co", "Cs"}


def without_surrogates(block: str) -> str:
    """With "?" for surrogates, which `tokenizers` refuses and no text has."""
    return "".join("?" if 0xD800 <= ord(each) < 0xE000 else each for each in block)


def _properties(character: str) -> int:
    found = unicodedata.combining(character)
    found |= SPACE * character.isspace() | ALONE * is_alone(character)
    found |= ACCENT * (unicodedata.category(character) == "Mn")
    if is_dropped(character):
        return found | DROPPED | IGNORABLE
    # Python has no table of the letters that decide upon a final sigma, so a sigma is asked.
    if f"{character}Σ".lower()[-1] == "ς":
        found |= CASED
    elif f"A{character}Σ".lower()[-1] == "ς":
        found |= IGNORABLE
    return found
