"""Normalizes texts inside a TF graph as the library `tokenizers` does.

All tables are taken from `tokenizers`, which has an older version of Unicode than Python and the
ICU library of a server. With the ops of tensorflow-text for NFC, marks of newer scripts would come
in another order than in training.
"""

import base64
import json
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import tensorflow as tf
from tokenizers import normalizers

from bert_keras.errors import InputError
from bert_keras.exporting.text_ops.unicode_tables import (
    BLOCK,
    COMBINING_CLASS,
    PointTable,
    Replacements,
    replacements_of,
    table_of,
    without_surrogates,
)
from bert_keras.exporting.text_ops.words import (
    Points,
    RaggedTensor,
    every_second,
    following,
    in_order,
    looked_up,
    num_before,
    points_of,
    previous,
    replaced,
    utf8_widths,
)

_ORDER = ("NFKD", "StripAccents", "Lowercase", "NFC", "Precompiled")
_SPACES = {"Regex": " {2,}"}  # without effect, because texts are split at spaces
_DOUBLE_QUOTE = ord('"')
_QUOTES = "`'"  # two equal ones become a double quote

_POINTS = 1 << 21  # exceeds the largest code point
_NONE = -1
_SECOND = COMBINING_CLASS + 1  # bit of a character that can be the second one of a composition
_ACUTE, _OVERLAY = "\u0301", "\u0334"  # marks of the combining classes 230 and 1, of 2 bytes
_FOUR_BYTES = chr(0x10000)  # the first character of 4 bytes in UTF-8
_MAX_BYTES = 5  # of a grapheme that is replaced as a whole
# How a character divides graphemes: it continues the preceding one, the next character continues
# it, or it is a grapheme by itself.
_EXTENDS, _PREPENDS, _ALONE = 1, 2, 4


class Normalization(tf.Module):
    """Normalizes texts by the value of `normalizer` in a tokenizer.json, {} without one.

    Raises:
        InputError: The graph ops cannot follow the rules.
    """

    def __init__(self, rules: dict):
        super().__init__()
        steps = rules.get("normalizers", [rules] if rules else [])
        replacing = [s for s in steps if s["type"] == "Replace" and s["pattern"] != _SPACES]
        steps = {step["type"]: step for step in steps if step["type"] != "Replace"}
        quotes = [({"String": 2 * each}, '"') for each in _QUOTES]
        if (
            [(step["pattern"], step["content"]) for step in replacing] not in ([], quotes)
            or [*steps] != [name for name in _ORDER if name in steps]
            or ("NFKD" in steps) != ("StripAccents" in steps)
        ):
            raise InputError(
                f"the tokenizer normalizes by {json.dumps([*replacing, *steps])}; an exported "
                "graph supports NFKD with StripAccents, Lowercase, NFC and Precompiled, in this "
                "order, and Replace for quotes"
            )
        self._has_quotes = len(replacing) > 0
        # Without accents, the normal form of a character does not depend on its neighbours.
        drops_accents = "StripAccents" in steps
        composes = steps.pop("NFC", None) is not None
        self._composition = Composition() if composes else None
        charsmap = None if drops_accents and not composes else steps.pop("Precompiled", None)
        self._replacements = _replacements([*steps.values()])
        self._graphemes = None if charsmap is None else Graphemes(charsmap)

    def __call__(self, points: Points) -> Points:
        """Returns normalized texts; the source indices are those of `tokenizers`.

        Args:
            points: All texts with a space after each.
        """
        if self._has_quotes:
            points = _with_double_quotes(points)
        points = replaced(points, self._replacements)
        if self._composition is not None:
            positions = tf.range(tf.size(points.values, tf.int64))
            composed = self._composition(points._replace(source_indices=positions))
            indices = tf.gather(points.source_indices, composed.source_indices)
            points = composed._replace(source_indices=indices)
        return self._graphemes(points) if self._graphemes is not None else points


def _with_double_quotes(points: Points) -> Points:
    """Replaces two equal quotes by a double quote, which has the index of the second one."""
    is_quote = [points.values == ord(quote) for quote in _QUOTES]
    is_left = every_second(tf.reduce_any([each & following(each) for each in is_quote], axis=0))
    values = tf.where(previous(is_left), _DOUBLE_QUOTE, points.values)
    return points._replace(values=values).without(is_left)


def _replacements(steps: list[dict]) -> Replacements:
    """Returns the normal form of each character by itself."""
    sequence = normalizers.Sequence([])
    sequence.__setstate__(json.dumps({"type": "Sequence", "normalizers": steps}).encode())

    def of_block(block: str) -> Sequence[str]:
        block = without_surrogates(block)
        joined = "a".join(block)
        if sequence.normalize_str(joined) == joined:
            return block
        return [*map(sequence.normalize_str, block)]

    return replacements_of(of_block)


class Composition(tf.Module):
    """Converts texts to NFC: decomposes, sorts marks and composes (Unicode Standard Annex 15)."""

    def __init__(self):
        super().__init__()
        pairs = np.array([[*map(ord, pair)] for pair in _compositions()], np.int64)
        composites = np.array([*map(ord, _compositions().values())], np.int32)
        self._composites = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(pairs @ [_POINTS, 1], composites), _NONE
        )

    def __call__(self, points: Points) -> Points:
        """Returns texts in NFC.

        As in `tokenizers`, a composed character has the source index of its first character.
        """
        points = replaced(points, _decompositions())
        # By how many characters each one makes the text longer.
        is_more = points.source_indices == previous(points.source_indices, filler=_NONE)
        points = points._replace(
            properties=looked_up(_composition_properties(), points.values),
            source_indices=tf.cast(is_more, tf.int64),
        )
        points = in_order(points)
        values, targets = self._composed(points)
        is_absorbed = targets != tf.range(tf.size(targets, tf.int64))
        absorbed = tf.where(is_absorbed)
        growth = tf.tensor_scatter_nd_add(
            points.source_indices,
            tf.gather_nd(targets, absorbed)[:, None],
            tf.gather_nd(points.source_indices, absorbed) - 1,
        )
        points = points._replace(values=values, source_indices=growth).without(is_absorbed)
        growth = points.source_indices
        first = tf.cumsum(1 - growth, exclusive=True) - tf.maximum(growth, 0)
        return points_of(points.values, points.splits)._replace(source_indices=first)

    def _composed(self, points: Points) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns code points, and for each the index of the one that it becomes a part of.

        Each step takes the next character of every run. A run is a character and those after it
        that can be composed with it or are combining marks.
        """
        size = tf.size(points.values, tf.int64)
        is_first = (points.properties == 0) | (tf.range(size) == 0)
        runs = RaggedTensor.from_row_starts(
            tf.range(size), tf.where(is_first)[:, 0], validate=False
        )
        has_marks = runs.row_lengths() > 1
        starts = tf.boolean_mask(runs.row_starts(), has_marks)
        lengths = tf.boolean_mask(runs.row_lengths(), has_marks)

        def step(number, values, targets, starters, last_classes):
            is_active = lengths > number
            index = starts + tf.where(is_active, number, 0)
            value = tf.gather(values, index)
            combining_class = tf.gather(points.properties, index) & COMBINING_CLASS
            keys = tf.cast(tf.gather(values, starters), tf.int64) * _POINTS
            composites = self._composites.lookup(keys + tf.cast(value, tf.int64))
            # A mark of the same class between both characters blocks their composition.
            is_open = (last_classes == 0) | (last_classes < combining_class)
            is_composed = is_active & is_open & (composites != _NONE)
            composed = tf.where(is_composed)
            at = tf.gather_nd(starters, composed)
            values = tf.tensor_scatter_nd_update(
                values, at[:, None], tf.gather_nd(composites, composed)
            )
            targets = tf.tensor_scatter_nd_update(
                targets, tf.gather_nd(index, composed)[:, None], at
            )
            is_kept = is_active & tf.logical_not(is_composed)
            starters = tf.where(is_kept & (combining_class == 0), index, starters)
            last_classes = tf.where(is_kept, combining_class, last_classes)
            return number + 1, values, targets, starters, last_classes

        longest = tf.reduce_max(tf.pad(lengths, [[0, 1]]))
        no_classes = tf.zeros_like(starts, tf.int32)
        _, values, targets, _, _ = tf.while_loop(
            lambda number, *_: number < longest,
            step,
            (tf.constant(1, tf.int64), points.values, tf.range(size), starts, no_classes),
        )
        return values, targets


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
def _decompositions() -> Replacements:
    return replacements_of(lambda block: [_decomposed().get(each, each) for each in block])


@cache
def _composition_properties() -> PointTable:
    """Returns the combining class of each code point that `tokenizers` sorts, and `_SECOND`."""
    seconds, normalize = {second for _, second in _compositions()}, normalizers.NFD().normalize_str

    def combining_class(character: str) -> int:
        python_class = unicodedata.combining(character)
        is_sorted = python_class > 0 and any(
            normalize(text) != text for text in (_ACUTE + character, character + _OVERLAY)
        )
        return python_class * is_sorted

    return table_of(
        lambda block: [combining_class(each) | _SECOND * (each in seconds) for each in block]
    )


class Graphemes(tf.Module):
    """Normalizes texts by the table of a SentencePiece model, as Precompiled of `tokenizers` does.

    It divides a text into graphemes (Unicode Standard Annex 29). If a grapheme has less than 6
    bytes in UTF-8 and begins with an entry of the table, the entry's value replaces all of it.
    Otherwise each character is replaced by itself. The end of longer graphemes does not matter.
    """

    def __init__(self, rules: dict):
        super().__init__()
        self._replacements = _replacements([rules])
        pairs = _pairs(base64.b64decode(rules["precompiled_charsmap"]))
        keys = np.array([[*map(ord, pair)] for pair in pairs], np.int64).reshape(-1, 2)
        values = np.array([*map(ord, pairs.values())], np.int32)
        self._values = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys @ [_POINTS, 1], values), _NONE
        )

    def __call__(self, points: Points) -> Points:
        """Returns normalized texts; the source indices are those of `tokenizers`."""
        kinds = looked_up(_grapheme_kinds(), points.values)
        ends = points.splits[1:, None] - 1  # the space after each text
        kinds = tf.tensor_scatter_nd_update(kinds, ends, tf.fill(tf.shape(ends)[:1], _ALONE))
        before = previous(kinds, filler=_ALONE)
        is_joined = (kinds & _EXTENDS > 0) | (before & _PREPENDS > 0)
        is_start = tf.logical_not(is_joined & ((kinds | before) & _ALONE == 0))
        index = num_before(is_start)[1:] - 1  # the grapheme of each character
        sizes = tf.math.segment_sum(utf8_widths(points.values), index)
        lengths = tf.math.segment_sum(tf.ones_like(index), index)
        is_short = tf.gather((sizes <= _MAX_BYTES) & (lengths > 1), index)
        values = tf.cast(points.values, tf.int64)
        pairs = self._values.lookup(values * _POINTS + following(values))
        is_mapped = looked_up(self._replacements.indices, points.values) > 0
        is_first = is_start & is_short & (is_mapped | (pairs != _NONE))
        is_replaced = tf.gather(tf.boolean_mask(is_first, is_start), index)
        is_dropped = is_replaced & tf.logical_not(is_start)
        values = tf.where(is_first & tf.logical_not(is_mapped), pairs, points.values)
        num_sources = tf.where(is_first, tf.gather(lengths, index), 1)
        kept = points._replace(values=values, source_indices=num_sources).without(is_dropped)
        num_sources = kept.source_indices
        indices = tf.range(tf.size(num_sources, tf.int64))
        normal = replaced(kept._replace(source_indices=indices), self._replacements)
        sources = _sources(normal.source_indices, num_sources)
        return normal._replace(source_indices=tf.gather(points.source_indices, sources))


def _sources(groups: tf.Tensor, num_sources: tf.Tensor) -> tf.Tensor:
    """Returns the index of the character from which `tokenizers` says that each new one comes.

    It counts by how many characters each new one makes the text longer (1) or shorter. `groups`,
    int64 [M], has what each new character replaces; `num_sources`, int64 [N], the sizes of groups.
    """
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(groups), groups, tf.size(num_sources))
    starts = tf.cumsum(sizes, exclusive=True)
    offsets = tf.range(tf.size(groups, tf.int64)) - tf.gather(starts, groups)
    growth = tf.cast(offsets >= tf.gather(num_sources, groups), tf.int64)
    removed = tf.minimum(sizes - num_sources, 0)
    # The first element is for what is removed before the first new character.
    growth = tf.pad(growth, [[1, 0]])
    growth = tf.tensor_scatter_nd_add(growth, (starts + sizes)[:, None], removed)
    before, growth = growth[0], growth[1:]
    return tf.cumsum(1 - growth, exclusive=True) - before - tf.maximum(growth, 0)


def _pairs(charsmap: bytes) -> Mapping[str, str]:
    """Returns the entries of two characters, for graphemes whose first character has no entry.

    The file has the length of a trie, the trie (darts-clone: label in bits 0 to 7, whether a value
    follows in bit 8, distance to the children above), and the values, which end in a zero byte.
    """
    start = 4 + int.from_bytes(charsmap[:4], "little")
    units, texts = np.frombuffer(charsmap[4:start], "<u4").astype(np.int64), charsmap[start:]
    labels, children = np.arange(1, 256), (units >> 10) << ((units & 1 << 9) >> 6)
    entries, keys, nodes = {}, [b""], np.array([children[0]])
    for _ in range(_MAX_BYTES):
        units_NL = nodes[:, None] ^ labels
        units_NL = np.where(units_NL < len(units), units_NL, 0)
        rows, columns = np.nonzero((units[units_NL] & (1 << 31 | 0xFF)) == labels)
        found = units_NL[rows, columns]
        steps = zip(rows, labels[columns], strict=True)
        keys = [keys[row] + bytes([label]) for row, label in steps]
        nodes = found ^ children[found]
        for key, unit, node in zip(keys, units[found], nodes, strict=True):
            if unit >> 8 & 1:
                entries[key] = texts[units[node] & (1 << 31) - 1 :].split(b"\0", 1)[0]
    decoded = {key.decode(): value.decode() for key, value in entries.items()}
    return {k: value for k, value in decoded.items() if len(k) == 2 and k[0] not in decoded}


@cache
def _grapheme_kinds() -> PointTable:
    """Returns how each code point divides graphemes by the tables of `tokenizers`."""
    divide = _divider().normalize_str

    def kind(character: str) -> int:
        kind = _EXTENDS * (len(divide("a" + character)) == 1)
        kind |= _PREPENDS * (len(divide(character + "a")) == 1)
        if character < _FOUR_BYTES:
            return kind | _ALONE * (len(divide(character + _ACUTE)) > 1)
        return kind or _ALONE * (unicodedata.category(character) == "Cf")

    def of_block(block: str) -> list[int]:
        block = without_surrogates(block)
        # With a letter before and after each character, nothing is joined in most of these blocks.
        is_joined = len(divide("a".join(["", *block, ""]))) != 2 * BLOCK + 1
        if block[0] < _FOUR_BYTES or is_joined or "Cf" in map(unicodedata.category, block):
            return [*map(kind, block)]
        return [0] * BLOCK

    return table_of(of_block)


def _divider() -> normalizers.Precompiled:
    """Returns a normalizer that makes one character of a grapheme of at most _MAX_BYTES."""
    units = np.zeros(512, "<u4")
    labels = np.arange(1, 256, dtype="<u4")
    units[0] = 256 << 10
    units[256 ^ labels] = labels | 1 << 8 | 256 << 10
    return normalizers.Precompiled(units.nbytes.to_bytes(4, "little") + units.tobytes() + b"?\0")
