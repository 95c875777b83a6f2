import sys
import unicodedata

import numpy as np

from bert_keras.exporting.text_ops.unicode_tables import (
    ACCENT,
    ALONE,
    BLOCK,
    CASED,
    COMBINING_CLASS,
    DROPPED,
    IGNORABLE,
    SPACE,
    lowercase_decomposed,
    properties,
)

FLAGS = {"alone": ALONE, "space": SPACE, "dropped": DROPPED, "accent": ACCENT}
FLAGS |= {"cased": CASED, "ignorable": IGNORABLE}


def looked_up(table, character):
    return table.values[table.starts[ord(character) // BLOCK] + ord(character) % BLOCK]


def flags(character):
    bits = looked_up(properties(), character)
    return {name for name, flag in FLAGS.items() if bits & flag}


def test_properties():
    assert flags("a") == flags("Σ") == flags("ª") == {"cased"}
    assert flags("字") == flags("$") == flags("—") == {"alone"}
    assert flags("'") == flags("^") == {"alone", "ignorable"}
    assert flags(" ") == flags("\n") == flags("\u3000") == flags("\u2028") == {"space"}
    assert flags("\u0301") == flags("\u0345") == {"accent", "ignorable"}
    assert flags("\0") >= {"dropped", "ignorable"} <= flags("\u200b")
    assert flags("ا") == flags("\ue000") == flags("한") == set()


def test_combining_classes():
    classes = [looked_up(properties(), chr(p)) & COMBINING_CLASS for p in range(sys.maxunicode + 1)]
    assert classes == [unicodedata.combining(chr(p)) for p in range(sys.maxunicode + 1)]


def test_replacements():
    indices, points, starts = lowercase_decomposed()

    def replaced(character):
        index = looked_up(indices, character)
        return "".join(map(chr, points[starts[index] : starts[index + 1]])) if index else None

    assert [replaced(each) for each in "aß字"] == [None] * 3
    assert [replaced(each) for each in "AÉİﬁ한"] == [
        "a",
        "e\u0301",
        "i\u0307",
        None,
        "ᄒ\u1161\u11ab",
    ]
    assert replaced("\u200b") == replaced("\ufffd") == ""
    assert starts[1] == 1  # replacement 0 has one code point, which is not used


def test_tables_are_small():
    """Every exported graph contains them."""
    tables = (*properties(), *lowercase_decomposed().indices, *lowercase_decomposed()[1:])
    assert sum(array.nbytes for array in tables) < 600_000
    assert {array.dtype for array in tables} == {np.dtype(np.int32)}
