"""Normalizes texts inside a TF graph as the library `tokenizers` does.

All tables are taken from `tokenizers`, whose Unicode is older than Python's and than ICU's, which
the ops of tensorflow-text use: marks of newer scripts would come in another order than in training.
"""

import json
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
from tokenizers import normalizers

from bert_keras.errors import InputError
from bert_keras.exporting.text_ops import words as word_ops

_ORDER = ("NFKD", "StripAccents", "Lowercase", "NFC", "Precompiled")
_SPACES = {"Regex": " {2,}"}  # without effect, because texts are split at spaces
_QUOTES = "`'"  # two equal ones become a double quote

_POINTS = 1 << 21  # exceeds the largest code point
_NONE = -1  # where a table has no entry
_ACUTE, _OVERLAY = "\u0301", "\u0334"  # marks of the combining classes 230 and 1, of 2 bytes
_FOUR_BYTES = chr(0x10000)  # the first character of 4 bytes in UTF-8
_MAX_BYTES = 5  # of a grapheme that is replaced as a whole
# How a character divides graphemes: it continues the preceding one, the next character continues
# it, or it is a grapheme by itself.
_EXTENDS, _PREPENDS, _ALONE = 1, 2, 4


class Normalization(tf.Module):
    """Normalizes texts by the value of `normalizer` in a tokenizer.json, {} without one."""

    def __init__(self, rules: dict):
        super().__init__()
        steps = rules.get("normalizers", [rules] if rules else [])
        replacing = [s for s in steps if s["type"] == "Replace" and s["pattern"] != _SPACES]
        steps = {step["type"]: step for step in steps if step["type"] != "Replace"}
        quotes = [({"String": 2 * each}, '"') for each in _QUOTES]
        if not (
            [(step["pattern"], step["content"]) for step in replacing] in ([], quotes)
            and [*steps] == [name for name in _ORDER if name in steps]
            and ("NFKD" in steps) == ("StripAccents" in steps)
        ):
            raise InputError(
                f"the tokenizer normalizes by {json.dumps([*replacing, *steps])}; an exported "
                f"graph supports {', '.join(_ORDER)}, in this order, and Replace for quotes"
            )
        self._has_quotes = len(replacing) > 0
        # Without accents, the normal form of a character does not depend on its neighbours.
        is_charwise = "StripAccents" in steps and "NFC" not in steps
        self._composition = Composition() if steps.pop("NFC", None) else None
        charsmap = None if is_charwise else steps.pop("Precompiled", None)
        self._replacements = _replacements([*steps.values()])
        self._graphemes = Graphemes(charsmap) if charsmap else None

    def __call__(self, points: word_ops.CodePoints) -> word_ops.CodePoints:
        """Returns normalized texts with a space after each; the indices are as in `tokenizers`."""
        if self._has_quotes:  # of two equal ones, the second is replaced and the first dropped
            is_quote = [points.values == ord(quote) for quote in _QUOTES]  # bool [X] of each kind
            is_double = tf.reduce_any([each & word_ops.following(each) for each in is_quote], 0)
            is_left = word_ops.every_second(is_double)
            values = tf.where(word_ops.previous(is_left), ord('"'), points.values)
            points = points._replace(values=values).without(is_left)
        points = word_ops.replace_points(points, self._replacements)
        for step in filter(None, (self._composition, self._graphemes)):
            points = step(points)
        return points


def _sequence(steps: list[dict]) -> normalizers.Sequence:
    sequence = normalizers.Sequence([])
    sequence.__setstate__(json.dumps({"type": "Sequence", "normalizers": steps}).encode())
    return sequence


def _replacements(steps: list[dict]) -> word_ops.Replacements:
    """Returns the normal form of each character by itself."""
    sequence = _sequence(steps)

    def normal_forms(block: str) -> Sequence[str]:
        block = word_ops.replace_surrogates(block)
        is_normal = sequence.normalize_str("a".join(block)) == "a".join(block)
        return block if is_normal else [*map(sequence.normalize_str, block)]

    return word_ops.make_replacements(normal_forms)


class Composition(tf.Module):
    """Converts texts to NFC: decomposes, sorts marks and composes (Unicode Standard Annex 15)."""

    def __init__(self):
        super().__init__()
        self._composites = _table_of_pairs(_compositions())

    def __call__(self, points: word_ops.CodePoints) -> word_ops.CodePoints:
        """Returns texts in NFC; a composed character has the index of its first character."""
        numbered = points._replace(source_indices=tf.range(tf.size(points.values, tf.int64)))
        decomposed = word_ops.replace_points(numbered, _decompositions())
        sources = decomposed.source_indices
        # From here, `properties` are combining classes, and `source_indices` are the growth: by how
        # many characters each character makes the text longer.
        classes = word_ops.look_up(_combining_classes(), decomposed.values)
        growth = tf.cast(sources == word_ops.previous(sources, filler=_NONE), tf.int64)
        decomposed = decomposed._replace(properties=classes, source_indices=growth)
        composed = self._compose(word_ops.sort_marks(decomposed))
        source_indices = tf.gather(points.source_indices, _sources(composed.source_indices))
        composed = word_ops.make_points(composed.values, composed.splits)
        return composed._replace(source_indices=source_indices)

    def _compose(self, points: word_ops.CodePoints) -> word_ops.CodePoints:
        """Composes characters with their starter, the last character of class 0 before them."""

        def composites_of(points: word_ops.CodePoints) -> tuple[tf.Tensor, tf.Tensor]:
            """Returns each character's composite with its starter, or _NONE, and the starter."""
            classes = points.properties
            is_starter = (classes == 0) | (tf.range(tf.size(classes)) == 0)
            starter_number = tf.maximum(word_ops.num_before(is_starter)[:-1] - 1, 0)
            starters = tf.gather(tf.where(is_starter)[:, 0], starter_number)
            starter_values = tf.cast(tf.gather(points.values, starters), tf.int64)
            pairs = starter_values * _POINTS + tf.cast(points.values, tf.int64)
            composites = self._composites.lookup(pairs)
            # A mark of the same class between both characters blocks their composition.
            before = word_ops.previous(classes, filler=word_ops.COMBINING_CLASS)
            is_open = (before == 0) | (before < classes)
            return tf.where(is_open, composites, _NONE), starters

        def step(points, composites, starters):  # composes the first possible pair of each starter
            found = tf.where(composites != _NONE)[:, 0]
            of_found = tf.gather(starters, found)
            is_first = of_found != word_ops.previous(of_found, filler=_NONE)
            # A starter that itself becomes a part of another one waits for the next step.
            is_first &= tf.gather(composites, of_found) == _NONE
            found, of_found = found[is_first], of_found[is_first]
            growth = tf.gather(points.source_indices, found) - 1
            update, add = tf.tensor_scatter_nd_update, tf.tensor_scatter_nd_add
            values = update(points.values, of_found[:, None], tf.gather(composites, found))
            indices = add(points.source_indices, of_found[:, None], growth)
            absorbed = tf.scatter_nd(
                found[:, None], tf.ones_like(found), tf.shape(starters, tf.int64)
            )
            points = points._replace(values=values, source_indices=indices).without(absorbed > 0)
            return points, *composites_of(points)

        shape: Any = tf.TensorShape([None])
        points, *_ = tf.while_loop(
            lambda points, composites, starters: tf.reduce_any(composites != _NONE),
            step,
            (points, *composites_of(points)),
            shape_invariants=(word_ops.CodePoints(shape, shape, shape, shape), shape, shape),
        )
        return points


def _table_of_pairs(values: dict[str, str]) -> tf.lookup.StaticHashTable:
    """Returns a table from first * _POINTS + second of two code points to a third, or _NONE."""
    pairs = np.array([[*map(ord, pair)] for pair in values], np.int64).reshape(-1, 2)
    thirds = np.array([*map(ord, values.values())], np.int32)
    return word_ops.make_hash_table(pairs @ [_POINTS, 1], thirds, default=_NONE)


def _sources(growth: tf.Tensor) -> tf.Tensor:
    """Returns the source index that `tokenizers` gives each character, from the growth."""
    return tf.cumsum(1 - growth, exclusive=True) - tf.maximum(growth, 0)


@cache
def _decomposed() -> dict[str, str]:
    """Returns the decomposition of each character that has one."""
    normalize = normalizers.NFD().normalize_str
    characters = map(chr, range(sys.maxunicode + 1))
    # Python's newer version of Unicode decomposes all of them, too.
    decomposed = [each for each in characters if not unicodedata.is_normalized("NFD", each)]
    return {each: parts for each in decomposed if (parts := normalize(each)) != each}


@cache
def _compositions() -> dict[str, str]:
    """Returns the character that two characters compose, by these two characters."""
    normalize = normalizers.NFC().normalize_str
    return {
        normalize(parts[:-1]) + parts[-1]: character
        for character, parts in _decomposed().items()
        if normalize(character) == character
    }


@cache
def _decompositions() -> word_ops.Replacements:
    parts = _decomposed()
    return word_ops.make_replacements(lambda block: [parts.get(each, each) for each in block])


@cache
def _combining_classes() -> word_ops.CodePointTable:
    """Returns the combining class of each code point that `tokenizers` sorts, 0 elsewhere."""
    normalize = normalizers.NFD().normalize_str

    def combining_class(character: str) -> int:
        texts = (_ACUTE + character, character + _OVERLAY)
        python_class = unicodedata.combining(character)
        return python_class and python_class * any(normalize(text) != text for text in texts)

    return word_ops.make_table(lambda block: [*map(combining_class, block)])


class Graphemes(tf.Module):
    """Normalizes texts by the table of a SentencePiece model, as Precompiled of `tokenizers` does.

    If a grapheme (Unicode Standard Annex 29) has less than 6 bytes in UTF-8 and begins with an
    entry of the table, the entry's value replaces all of it. Otherwise each character is replaced.
    """

    def __init__(self, rules: dict):
        super().__init__()
        self._replacements = _replacements([rules])
        pairs = [*_compositions()]
        # A mark may be written as another character, such as U+0340 for the grave accent.
        others = {parts: each for each, parts in _decomposed().items()}
        pairs += [first + others[mark] for first, mark in pairs if mark in others]
        normalize = _sequence([rules]).normalize_str
        # The entries of a letter and a mark whose letter has no entry.
        values = {
            pair: new
            for pair in pairs
            if normalize(pair[0]) == pair[0]
            and (new := normalize(pair)) != pair[0] + normalize(pair[1])
        }
        self._values = _table_of_pairs(values)

    def __call__(self, points: word_ops.CodePoints) -> word_ops.CodePoints:
        """Returns normalized texts with the same source indices as `tokenizers`."""
        kinds = word_ops.look_up(_grapheme_kinds(), points.values)
        ends = points.splits[1:, None] - 1  # the space after each text
        kinds = tf.tensor_scatter_nd_update(kinds, ends, tf.fill(tf.shape(ends)[:1], _ALONE))
        before = word_ops.previous(kinds, filler=_ALONE)
        is_joined = (kinds & _EXTENDS > 0) | (before & _PREPENDS > 0)
        is_start = tf.logical_not(is_joined & ((kinds | before) & _ALONE == 0))
        grapheme = word_ops.num_before(is_start)[1:] - 1  # the number of each character's grapheme
        num_bytes = tf.math.segment_sum(word_ops.utf8_widths(points.values), grapheme)
        lengths = tf.math.segment_sum(tf.ones_like(grapheme), grapheme)
        is_short = tf.gather((num_bytes <= _MAX_BYTES) & (lengths > 1), grapheme)
        values = tf.cast(points.values, tf.int64)
        pairs = self._values.lookup(values * _POINTS + word_ops.following(values))
        is_mapped = word_ops.look_up(self._replacements.indices, points.values) > 0
        is_first = is_start & is_short & (is_mapped | (pairs != _NONE))
        is_replaced = tf.gather(tf.boolean_mask(is_first, is_start), grapheme)
        is_dropped = is_replaced & tf.logical_not(is_start)
        values = tf.where(is_first & tf.logical_not(is_mapped), pairs, points.values)
        num_sources = tf.where(is_first, tf.gather(lengths, grapheme), 1)
        kept = points._replace(values=values, source_indices=num_sources).without(is_dropped)
        num_sources = kept.source_indices
        indices = tf.range(tf.size(num_sources, tf.int64))
        normal = word_ops.replace_points(kept._replace(source_indices=indices), self._replacements)
        # The growth is how many characters longer each character makes the text. A longer
        # replacement grows at its last characters, a shorter one shrinks at its end.
        groups = normal.source_indices
        sizes = tf.math.unsorted_segment_sum(tf.ones_like(groups), groups, tf.size(num_sources))
        ends = tf.cumsum(sizes)
        offsets = tf.range(tf.size(groups, tf.int64)) - tf.gather(ends - sizes, groups)
        growth = tf.cast(offsets >= tf.gather(num_sources, groups), tf.int64)
        removed = tf.minimum(sizes - num_sources, 0)
        growth = tf.tensor_scatter_nd_add(tf.pad(growth, [[1, 0]]), ends[:, None], removed)
        sources = _sources(growth[1:]) - growth[0]
        return normal._replace(source_indices=tf.gather(points.source_indices, sources))


@cache
def _grapheme_kinds() -> word_ops.CodePointTable:
    """Returns how each code point divides graphemes by the tables of `tokenizers`."""
    # A SentencePiece table that maps each byte to "?", so that this normalizer makes one character
    # of a grapheme of at most _MAX_BYTES. It is a double-array trie: 256 is its offset.
    units = np.zeros(512, "<u4")
    labels = np.arange(1, 256, dtype="<u4")
    units[0] = 256 << 10
    units[256 ^ labels] = labels | 1 << 8 | 256 << 10
    charsmap = units.nbytes.to_bytes(4, "little") + units.tobytes() + b"?\0"
    divide = normalizers.Precompiled(charsmap).normalize_str

    def kind_of(character: str) -> int:
        kind = _EXTENDS * (len(divide("a" + character)) == 1)
        kind |= _PREPENDS * (len(divide(character + "a")) == 1)
        if character < _FOUR_BYTES:
            return kind | _ALONE * (len(divide(character + _ACUTE)) > 1)
        return kind or _ALONE * (unicodedata.category(character) == "Cf")

    def kinds_of(block: str) -> list[int]:
        block = word_ops.replace_surrogates(block)
        # In most of these blocks, no character joins a letter before or after it.
        is_joined = len(divide("a".join(["", *block, ""]))) != 2 * word_ops.BLOCK + 1
        if block[0] < _FOUR_BYTES or is_joined or "Cf" in map(unicodedata.category, block):
            return [*map(kind_of, block)]
        return [0] * word_ops.BLOCK

    return word_ops.make_table(kinds_of)
