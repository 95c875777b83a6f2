"""Splits text into words as Google's BERT does, with the position of each character.

The words equal those of google-research/bert `tokenization.py` (BasicTokenizer) with the Unicode
tables of the running Python. The code is slow; it serves texts that `tokenizers` splits
differently.
"""

import re
import string
import unicodedata
from itertools import groupby
from typing import NamedTuple

# Characters that `str.translate` removes.
_CONTROLS = dict.fromkeys([*range(32), *range(0x7F, 0xA0), 0xFFFD])
for _space in "\t\n\r":
    del _CONTROLS[ord(_space)]
_CJK = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)
# A character, and the index of its source character in the text.
_IndexedCharacter = tuple[str, int]


class Word(NamedTuple):
    """One word of a text."""

    text: str
    indices: tuple[int, ...]  # for each character, the index of its source in the text


def google_words(text: str, *, lowercase: bool) -> list[Word]:
    """Splits text into words at white space, and around punctuation and CJK characters.

    Control characters are dropped. With `lowercase`, accents are, too.
    """
    words: list[list[_IndexedCharacter]] = [[]]
    for character, index in _lowered(text) if lowercase else _cleaned(text):
        if character.isspace():
            words.append([])
        elif is_alone(character):
            words += [[(character, index)], []]
        else:
            words[-1].append((character, index))
    return [
        Word("".join(characters), indices)
        for characters, indices in (zip(*word, strict=True) for word in words if word)
    ]


def is_dropped(character: str) -> bool:
    """Returns whether a character is a control or format character, which is removed."""
    return ord(character) in _CONTROLS or unicodedata.category(character) == "Cf"


def is_alone(character: str) -> bool:
    """Returns whether a character is a word of its own: punctuation, an ASCII symbol, or CJK."""
    return (
        unicodedata.category(character)[0] == "P"
        or character in string.punctuation
        or _CJK.match(character) is not None
    )


def with_small_sigmas(text: str) -> str:
    """Lower-cases the capital sigmas of a text: to ς at the end of a word, otherwise to σ."""
    cleaned = text.translate(_CONTROLS).replace("İ", "i")  # "İ".lower() has two characters
    sigmas = (small for large, small in zip(cleaned, cleaned.lower(), strict=True) if large == "Σ")
    return re.sub("Σ", lambda _: next(sigmas), text)


def _cleaned(text: str) -> list[_IndexedCharacter]:
    return [(character, index) for index, character in enumerate(text) if not is_dropped(character)]


def _lowered(text: str) -> list[_IndexedCharacter]:
    """Returns the characters in lower case and without accents, by NFD in canonical order."""
    decomposed = [
        (part, index)
        for character, index in _cleaned(with_small_sigmas(text))
        for part in unicodedata.normalize("NFD", character.lower())
    ]
    ordered: list[_IndexedCharacter] = []
    for is_mark, run in groupby(decomposed, lambda pair: unicodedata.combining(pair[0]) > 0):
        pairs = list(run)
        ordered += sorted(pairs, key=lambda p: unicodedata.combining(p[0])) if is_mark else pairs
    return [pair for pair in ordered if unicodedata.category(pair[0]) != "Mn"]
