"""Splits text into words as Google's BERT does, with the position of each character.

Equal to google-research/bert `tokenization.py` (BasicTokenizer) under this Python's Unicode tables,
character by character: exact and slow, for texts that `tokenizers` reads differently.
"""

import re
import string
import unicodedata
from itertools import groupby
from typing import NamedTuple

_CONTROLS = dict.fromkeys([*range(32), *range(0x7F, 0xA0), 0xFFFD])  # for str.translate: dropped
for _space in "\t\n\r":
    del _CONTROLS[ord(_space)]
_CJK = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)
_Placed = tuple[str, int]  # a character, and where the one that it comes from stands in the text


class Word(NamedTuple):
    """One word of a text."""

    text: str
    places: tuple[int, ...]  # for each character, the index of its source in the given text


def google_words(text: str, *, lowercase: bool) -> list[Word]:
    """Cleaned, CJK and punctuation apart; lower-cased and without accents when asked to."""
    words: list[list[_Placed]] = [[]]
    for character, place in _lowered(text) if lowercase else _cleaned(text):
        if character.isspace():
            words.append([])
        elif is_alone(character):
            words += [[(character, place)], []]
        else:
            words[-1].append((character, place))
    return [
        Word("".join(letters), places)
        for letters, places in (zip(*word, strict=True) for word in words if word)
    ]


def is_dropped(character: str) -> bool:
    """Returns whether the tokenizer removes a control or format character."""
    return ord(character) in _CONTROLS or unicodedata.category(character) == "Cf"


def is_alone(character: str) -> bool:
    """A word of its own: punctuation, every ASCII sign, CJK."""
    return (
        unicodedata.category(character)[0] == "P"
        or character in string.punctuation
        or _CJK.match(character) is not None
    )


def with_small_sigmas(text: str) -> str:
    """The capital sigmas in lower case: at the end of a word it is another letter than within."""
    cleaned = text.translate(_CONTROLS).replace("İ", "i")  # the one letter whose small form is two
    sigmas = (small for given, small in zip(cleaned, cleaned.lower(), strict=True) if given == "Σ")
    return re.sub("Σ", lambda _: next(sigmas), text)


def _cleaned(text: str) -> list[_Placed]:
    return [(character, place) for place, character in enumerate(text) if not is_dropped(character)]


def _lowered(text: str) -> list[_Placed]:
    """Decomposed, marks in canonical order, then those without width dropped."""
    decomposed = [
        (part, place)
        for character, place in _cleaned(with_small_sigmas(text))
        for part in unicodedata.normalize("NFD", character.lower())
    ]
    ordered: list[_Placed] = []
    for is_mark, run in groupby(decomposed, lambda placed: unicodedata.combining(placed[0]) > 0):
        placed = list(run)
        ordered += sorted(placed, key=lambda p: unicodedata.combining(p[0])) if is_mark else placed
    return [placed for placed in ordered if unicodedata.category(placed[0]) != "Mn"]
