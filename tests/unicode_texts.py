"""Texts that are hard to split: the Unicode suite, every character, characters in any order."""

import json
import random
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
