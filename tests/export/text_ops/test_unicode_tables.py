import sys
import unicodedata

import numpy as np

from bert_keras.export.text_ops.unicode_tables import (
    ACCENT,
    ALONE,
    BLOCK,
    CASED,
    COMBINING_CLASS,
    DROPPED,
    IGNORABLE,
    SPACE,
    properties,
    small_decomposed,
)

FLAGS = {"alone": ALONE, "space": SPACE, "dropped": DROPPED, "accent": ACCENT}
FLAGS |= {"cased": CASED, "ignorable": IGNORABLE}


def looked_up(table, character):
    return table.numbers[table.starts[ord(character) // BLOCK] + ord(character) % BLOCK]


def flags(character):
    found = looked_up(properties(), character)
    return {name for name, flag in FLAGS.items() if found & flag}


def test_properties():
    assert flags("a") == flags("Σ") == flags("ª") == {"cased"}
    assert flags("字") == flags("$") == flags("—") == {"alone"}
    assert flags("'") == flags("^") == {"alone", "ignorable"}
    assert flags(" ") == flags("\n") == flags("\u3000") == flags("\u2028") == {"space"}
    assert flags("\u0301") == flags("\u0345") == {"accent", "ignorable"}
    assert flags("\0") >= {"dropped", "ignorable"} <= flags("\u200b")
    assert flags("ا") == flags("\ue000") == flags("한") == set()


def test_combining_classes():
    found = [looked_up(properties(), chr(p)) & COMBINING_CLASS for p in range(sys.maxunicode + 1)]
    assert found == [unicodedata.combining(chr(p)) for p in range(sys.maxunicode + 1)]


def test_spellings():
    numbers, points, starts = small_decomposed()

    def spelled(character):
        number = looked_up(numbers, character)
        return "".join(map(chr, points[starts[number] : starts[number + 1]])) if number else None

    assert [spelled(each) for each in "aß字"] == [None] * 3
    assert [spelled(each) for each in "AÉİﬁ한"] == [
        "a",
        "e\u0301",
        "i\u0307",
        None,
        "ᄒ\u1161\u11ab",
    ]
    assert spelled("\u200b") == spelled("\ufffd") == ""
    assert starts[1] == 1  # number 0 stands for one point, whichever it is


def test_tables_are_small():
    """They are written into every served model."""
    tables = (*properties(), *small_decomposed().numbers, *small_decomposed()[1:])
    assert sum(array.nbytes for array in tables) < 600_000
    assert {array.dtype for array in tables} == {np.dtype(np.int32)}
