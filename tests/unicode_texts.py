"""Texts that are hard to split: the Unicode suite, every character, characters in any order."""

import json
import random
import unicodedata
from itertools import pairwise
from pathlib import Path

SUITE = json.loads((Path(__file__).parent / "text" / "unicode_suite.json").read_text("utf-8"))
TEXTS = [text for texts in SUITE.values() for text in texts]
KNOWN = sorted(set("".join(TEXTS)))
CHARACTERS = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
WIDE_MARKS = "\u302e\u302f\U0001d165\U0001d16d\U00016ff0\u0941\u0323"
# Of the blocks of ideographs.
EDGES = "㐀䶿一鿿豈\ufaff\U00020000\U0002a6df\U0002a700\U0002b81f\U0002b820\U0002ceaf\U0002ceb0"


def some_characters(step: int = 1) -> list[str]:
    """Every `step`-th character that is neither a letter without case nor private nor unassigned;
    of these, which behave alike, one in 1009; those of Latin and of the suite; edges of blocks."""
    rare = [each for each in CHARACTERS if unicodedata.category(each) not in ("Lo", "Co", "Cn")]
    return [*CHARACTERS[:512], *rare[::step], *CHARACTERS[::1009], *KNOWN, *EDGES]


def characters_in_any_order(count: int) -> list[str]:
    pick, texts = random.Random(3), []
    for _ in range(count):
        some = [*pick.sample(KNOWN, 8), *pick.sample(WIDE_MARKS, 2), *pick.sample(CHARACTERS, 2)]
        some += "aB Σ.'"
        texts.append("".join(pick.choices(some, k=pick.randrange(25))))
    return texts


def in_graphs(texts: list[str]) -> list[str]:
    """Removes noncharacters such as U+FDD0, which TensorFlow 2.19 encodes as U+FFFD."""
    import tensorflow as tf

    if not tf.__version__.startswith("2.19"):
        return texts
    points = [*range(0xFDD0, 0xFDF0), *(n for n in range(0x110000) if n % 2**16 >= 0xFFFE)]
    return [text.translate(dict.fromkeys(points)) for text in texts]


def random_parts(text: str, rng: random.Random, *, most: int) -> list[str]:
    """Divides a text at random positions into 1 to `most` parts, which may be empty."""
    positions = sorted(rng.choices(range(len(text) + 1), k=rng.randrange(most)))
    return [text[start:end] for start, end in pairwise([0, *positions, len(text)])]
