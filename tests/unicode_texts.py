"""Texts that are hard to split: the Unicode suite, every character, characters in any order."""

import json
import random
from itertools import pairwise
from pathlib import Path

SUITE = Path(__file__).parent / "text" / "unicode_suite.json"
TEXTS = [text for texts in json.loads(SUITE.read_text("utf-8")).values() for text in texts]
CHARACTERS = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def characters_in_any_order(count: int) -> list[str]:
    pick, known = random.Random(3), sorted(set("".join(TEXTS)))
    texts = []
    for _ in range(count):
        some = [*pick.sample(known, 8), *pick.sample(CHARACTERS, 2), *"aB Σ'"]
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
