"""This Python's Unicode tables come in; arrays by which a graph reads text by code points go out.

A server's own tables (ICU's, RE2's) are of another year, and its locale changes them.
"""

import sys
import unicodedata
from collections.abc import Iterable
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
    return table_of([_properties(character) for character in characters()])


@cache
def small_decomposed() -> Spellings:
    """Lower case, then NFD; nothing where the character is dropped."""
    return spellings_of(
        "" if is_dropped(each) else unicodedata.normalize("NFD", each.lower())
        for each in characters()
    )


def spellings_of(spelled: Iterable[str]) -> Spellings:
    """`spelled` tells what each character becomes, in their order."""
    spellings, numbers = {"\0": 0}, []  # any one character has the length of number 0
    for character, spelling in zip(characters(), spelled, strict=True):
        same = spelling == character
        numbers.append(0 if same else spellings.setdefault(spelling, len(spellings)))
    points = np.array([ord(part) for spelling in spellings for part in spelling], np.int32)
    starts = np.cumsum([0, *map(len, spellings)], dtype=np.int32)
    return Spellings(table_of(numbers), points, starts)


def characters() -> map:
    return map(chr, range(sys.maxunicode + 1))


def table_of(numbers: list[int]) -> Table:
    blocks = np.array(numbers, np.int32).reshape(-1, BLOCK)
    kinds, of_which_kind = np.unique(blocks, axis=0, return_inverse=True)
    return Table(of_which_kind.reshape(-1).astype(np.int32) * BLOCK, kinds.reshape(-1))


def _properties(character: str) -> int:
    found = unicodedata.combining(character)
    found |= SPACE * character.isspace() | ALONE * is_alone(character)
    found |= ACCENT * (unicodedata.category(character) == "Mn")
    if is_dropped(character):
        return found | DROPPED | IGNORABLE
    # Python tells no one which letters decide upon a final sigma, so a sigma is asked.
    if f"{character}Σ".lower()[-1] == "ς":
        found |= CASED
    elif f"A{character}Σ".lower()[-1] == "ς":
        found |= IGNORABLE
    return found
